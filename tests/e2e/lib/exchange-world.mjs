/** Prepares a namespace for the exchanges of the reference: a session with its CLI and its machine. */

import { createECDH, randomBytes, randomUUID } from 'node:crypto';
import { fileMethods } from '../../../packages/cli-kit/src/files.mjs';
import { gitMethods } from '../../../packages/cli-kit/src/git-methods.mjs';
import { searchMethods } from '../../../packages/cli-kit/src/search.mjs';
import { createUploads } from '../../../packages/cli-kit/src/uploads.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Repository, temporaryFolder } from './git.mjs';

const DIRECTORY = '/home/ada/project';
const REQUESTS = { r1: { tool: 'shell', arguments: { command: 'npm test' } } };

/**
 * @typedef {object} World
 * @property {import('../../../scripts/product/clients/web.mjs').Web} web
 * @property {import('../../../scripts/product/clients/cli.mjs').Cli} cli serves the session and the machine
 * @property {() => Promise<import('../../../scripts/product/clients/cli.mjs').Cli>} connectRunner connects another socket for the machine
 * @property {Record<string, string>} values of the placeholders in angle brackets
 */

/** Returns the methods of the session. Git, files, search and uploads are the methods of the project's CLIs. */
function sessionMethods(t) {
  const repository = new Repository(t);
  repository.write('README.md', '# Demo\n');
  repository.write('src/main.rs', 'fn main() {}\n');
  repository.commit('Start');
  repository.write('README.md', '# Demo\nTests: npm test\n');
  const root = repository.folder;
  const workspace = { ...gitMethods(root), ...fileMethods(root), ...searchMethods(root) };
  const inRepository = Object.entries(workspace).map(([name, method]) => [name, ({ cwd: _cwd, ...params }) => method(params)]);
  const { uploadFile, deleteUploadFile } = createUploads(temporaryFolder(t)).methods;
  return {
    ...Object.fromEntries(inRepository),
    uploadFile,
    deleteUploadFile,
    listSlashCommands: () => ({ success: true, commands: [{ name: '/compact', description: 'Shortens the conversation' }] }),
    listSkills: () => ({ success: true, skills: [{ name: 'review', description: 'Reviews a change' }] }),
    permission: () => ({}),
    readPermissionRequest: ({ id, part }) => ({ success: true, text: JSON.stringify(REQUESTS[id].arguments), parts: 1, proof: `p${part}` }),
    revokeSessionRule: () => ({ success: true }),
    abort: () => ({}),
    switch: () => ({}),
    killSession: () => ({}),
    'set-session-config': (applied) => ({ applied }),
    'set-session-option': () => ({ success: true }),
    queue: () => ({ success: true }),
  };
}

/** Returns the methods of the machine's runner. */
function runnerMethods(world) {
  const project = { name: 'project', path: DIRECTORY, isGitRepository: true };
  const agentSession = { id: 'a-1', title: 'Fix the login', directory: DIRECTORY, updatedAt: 1795181634000 };
  return {
    spawnSession: async ({ directory, resumeSessionId, sessionId }) => {
      if (resumeSessionId === undefined)
        return { success: true, sessionId: (await world.web.openSession({ tag: `${directory}-notes` })).id };
      await world.cli.keepAlive(sessionId);
      return { success: true, sessionId };
    },
    forkSession: async () => ({ success: true, sessionId: (await world.web.openSession({ tag: 'fork' })).id }),
    checkPathExists: ({ paths }) => Object.fromEntries(paths.map((path) => [path, path === '/home/ada'])),
    listDirectory: ({ path }) => ({ success: true, path, entries: [project], roots: ['/home/ada'] }),
    listBranches: () => ({ success: true, current: 'main', branches: ['main', 'next'], available: ['next'] }),
    listAgentSessions: () => ({ success: true, sessions: [agentSession] }),
    importAgentSession: async ({ id }) => ({ success: true, sessionId: (await world.web.openSession({ tag: id })).id }),
  };
}

/** @param {{after: (step: () => unknown) => void}} t @param {import('./hub.mjs').Hub} hub @returns {Promise<World>} */
export async function openWorld(t, hub, namespace) {
  const web = hub.web(namespace);
  const machineId = randomUUID();
  await web.registerMachine({ id: machineId, metadata: { host: 'laptop' }, runnerState: { directories: ['/home/ada'] } });
  const metadata = { path: DIRECTORY, host: 'laptop', flavor: 'alpha', machineId, alphaSessionId: 'a-1' };
  const options = { namespace, tag: DIRECTORY, metadata, agentState: {}, auth: { machineId } };
  const { session, cli } = await liveSession(t, hub, options);
  const connectRunner = () => connectCli(t, hub, { namespace, auth: { machineId } });
  const world = {
    web,
    cli,
    connectRunner,
    values: { session: session.id, machine: machineId, 'new-machine': randomUUID(), token: hub.token() },
  };
  for (const [name, method] of Object.entries(sessionMethods(t))) await cli.serve(name, method);
  for (const [name, method] of Object.entries(runnerMethods(world))) await cli.serve(`${machineId}:${name}`, method);
  return world;
}

/** Adds the pending request `r1`. */
async function addRequest({ cli, values }) {
  await cli.emitWithAck('update-state', { sid: values.session, expectedVersion: 1, agentState: { requests: REQUESTS } });
}

async function addMessages({ web, values }) {
  for (const localId of ['m-1', 'm-2']) await web.post(`/api/sessions/${values.session}/messages`, { text: 'Run the tests', localId });
}

/** Deletes the namespace, because an import needs an empty namespace. */
async function deleteEverything({ web, cli }) {
  cli.close();
  while (!(await web.post('/api/namespaces/delete', {})).body.isDone);
}

/** Leaves a message for another session, whose CLI is away. */
async function holdMessage({ web, values }) {
  values.session = (await web.openSession({ tag: 'away' })).id;
  await web.post(`/api/sessions/${values.session}/messages`, { text: 'Run the tests', localId: 'm-1', hold: true });
}

const endSession = ({ cli, values }) => cli.emitWithAck('session-end', { sid: values.session });

/** Creates a session whose entry in the list has all fields, and a second session. */
async function fillList({ web, cli, values }) {
  const { session: sid, machine: machineId } = values;
  const worktree = { basePath: '/home/ada/main', branch: 'notes', name: 'notes', worktreePath: DIRECTORY };
  const summary = { text: 'Write the release notes', updatedAt: 1 };
  const details = { name: 'Release notes', summary, agentName: 'Alpha 2', lifecycleState: 'running', worktree };
  await cli.emitWithAck('update-metadata', {
    sid,
    expectedVersion: 1,
    metadata: { path: DIRECTORY, host: 'laptop', flavor: 'alpha', machineId, ...details },
  });
  const todos = ['completed', 'pending'].map((status) => ({ content: status, status }));
  await cli.sendMessage(sid, {
    role: 'agent',
    content: { type: 'alpha', data: { type: 'tool-call', name: 'TodoWrite', input: { todos } } },
  });
  await cli.keepAlive(sid, { permissionMode: 'default', modelMode: 'default' });
  await web.openSession({ tag: 'another' });
}

async function addUpload({ web, values }) {
  const file = { filename: 'plan.txt', content: 'QQ==', mimeType: 'text/plain' };
  values.upload = (await web.post(`/api/sessions/${values.session}/upload`, file)).body.path;
}

function addKeys({ values }) {
  const keys = createECDH('prime256v1').generateKeys('base64url');
  Object.assign(values, { key: keys, secret: randomBytes(16).toString('base64url') });
}

async function addNotification(world) {
  await addRequest(world);
  await eventually(async () => (await world.web.get('/api/push/log')).body.log[0]?.outcome === 'no-subscribers', 'an entry of the log');
}

async function addCode({ web, values }) {
  values.code = (await web.post('/api/devices/codes', {})).body.code;
}

async function addDevice(world) {
  await addCode(world);
  const device = { code: world.values.code, name: 'Phone', kind: 'phone' };
  world.values.device = (await world.web.post('/api/devices', device)).body.device.id;
}

async function requestDevice({ web, values }) {
  const { code, secret } = (await web.post('/api/devices/requests', { name: 'build server', kind: 'cli' })).body;
  Object.assign(values, { 'request-code': code, 'approved-secret': secret });
}

async function approveDevice(world) {
  await requestDevice(world);
  await world.web.post(`/api/devices/requests/${world.values['request-code']}`, { decision: 'approve' });
}

/** For each route, the function that prepares the namespace for a request. @type {Record<string, (world: World) => unknown>} */
export const PREPARATIONS = {
  'DELETE /api/devices/{id}': addDevice,
  'DELETE /api/sessions/{id}': endSession,
  'DELETE /api/sessions/{id}/held-messages/{localId}': holdMessage,
  'GET /api/devices': addDevice,
  'GET /api/devices/codes/{deviceId}': addDevice,
  'GET /api/devices/requests/{code}': requestDevice,
  'GET /api/inbox': addRequest,
  'GET /api/sessions/{id}/held-messages': holdMessage,
  'GET /api/push/log': addNotification,
  'GET /api/sessions': fillList,
  'GET /api/sessions/{id}/messages': addMessages,
  'GET /api/sessions/{id}/permissions/{requestId}/content': addRequest,
  'GET /cli/sessions/{id}/messages': addMessages,
  'GET /api/status': addMessages,
  'PATCH /api/devices/{id}': addDevice,
  'POST /api/devices': addCode,
  'POST /api/devices/requests/token': approveDevice,
  'POST /api/devices/requests/{code}': requestDevice,
  'POST /api/namespaces/import': deleteEverything,
  'POST /api/push/subscribe': addKeys,
  'POST /api/sessions/{id}/permissions/approve': addRequest,
  'POST /api/sessions/{id}/permissions/deny': addRequest,
  'POST /api/sessions/{id}/permissions/{requestId}/approve': addRequest,
  'POST /api/sessions/{id}/permissions/{requestId}/deny': addRequest,
  'POST /api/sessions/{id}/resume': endSession,
  'POST /api/sessions/{id}/upload/delete': addUpload,
  'POST /api/visibility': async ({ web, values }) => {
    const feed = await web.openSocket();
    values.subscription = (await feed.waitForGreeting()).data.subscriptionId;
  },
};

/** For each type of update, the function that makes the hub send this update to a CLI. @type {Record<string, (world: World) => Promise<unknown>>} */
export const CAUSES_OF_UPDATES = {
  'new-message': ({ web, values }) => web.post(`/api/sessions/${values.session}/messages`, { text: 'Run the tests', localId: 'm-1' }),
  'update-session': ({ web, values }) => web.patch(`/api/sessions/${values.session}`, { name: 'Release notes' }),
  'update-machine': async ({ connectRunner, values }) =>
    (await connectRunner()).emitWithAck('machine-update-state', { machineId: values.machine, expectedVersion: 1, runnerState: ['idle'] }),
};

/** For each type of event, the function that makes the hub send this event to a web client. @type {Record<string, (world: World, feed: import('../../../scripts/product/clients/web.mjs').Feed) => unknown>} */
export const CAUSES_OF_EVENTS = {
  'connection-changed': () => {},
  'session-added': async ({ web, values }) => (values.other = (await web.openSession({ tag: '/home/ada/other' })).id),
  'session-updated': ({ web, values }) => web.patch(`/api/sessions/${values.session}`, { pinned: true }),
  'session-removed': ({ web, values }) => web.delete(`/api/sessions/${values.other}`),
  'message-received': ({ cli, values }) => cli.sendMessage(values.session, { role: 'agent', content: 'Done' }),
  'machine-updated': ({ cli, values }) =>
    cli.emitWithAck('machine-update-state', { machineId: values.machine, expectedVersion: 1, runnerState: ['idle'] }),
  toast: addRequest,
  'storage-changed': () => {},
  'message-delta': ({ cli, values }) =>
    cli.emitWithAck('message-delta', { sid: values.session, id: 'a-1', text: 'I will run', kind: 'text' }),
  heartbeat: () => {},
  probe: (_world, feed) => feed.send('probe'),
};
