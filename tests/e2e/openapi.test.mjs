/** The hub answers as docs/openapi.yaml says: each operation is called, and each answer held against its schema. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { connectCli, liveSession } from './lib/cli.mjs';
import { ROOT, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { PushService } from './lib/push-service.mjs';

const service = await new PushService().start();
const hub = await startHub({ vars: { PUSH_ALLOW_INSECURE: 'true', VAPID_SUBJECT: 'mailto:ops@example.org' } });
after(async () => {
  service.stop();
  await hub.stop();
});

const API = 'https://hub.example.com/openapi';
const api = parse(readFileSync(path.join(ROOT, 'docs', 'openapi.yaml'), 'utf8'));
const METHODS = ['get', 'put', 'post', 'patch', 'delete'];
const operations = Object.entries(api.paths).flatMap(([route, item]) =>
  METHODS.filter((method) => item[method]).map((method) => [item[method].operationId, { route, method, operation: item[method] }]),
);
const byName = new Map(operations);

/** Schemas as they are checked here: what an object is not said to hold, it must not hold. */
function closed(schema) {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(closed);
  const whole = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isObject = [schema.type].flat().includes('object') && schema.properties !== undefined;
  return isObject && schema.additionalProperties === undefined ? { ...whole, additionalProperties: false } : whole;
}

const ajv = new Ajv({ strict: false, allErrors: true });
ajv.addSchema({ $id: API, ...closed(api) });

/** Fails unless `value` is what stands at a place of the description. */
function assertFits(value, place, what) {
  const check = ajv.getSchema(`${API}#${place}`);
  assert.ok(check(value), `${what}: ${ajv.errorsText(check.errors)}\n${JSON.stringify(value)}`);
}

const pointer = (...names) => names.map((name) => `/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('');

/** Where the schema of a request or answer stands, also when that is a reference. */
function schemaPlace(place, thing) {
  return `${thing.$ref === undefined ? place : thing.$ref.slice(1)}/content/application~1json/schema`;
}

describe('every operation of docs/openapi.yaml', () => {
  const suite = new Lifetime();
  const own = hub.web('own');
  const answered = new Set();
  let session;
  let machine;
  let cli;
  let feed;

  /**
   * Calls an operation and checks what it answers.
   * @param {string} name its operationId
   * @param {{id?: string, requestId?: string, query?: string, body?: unknown, status?: number, web?: import('./lib/web.mjs').Web}} [options]
   */
  async function call(name, { id = '', requestId = '', query = '', body, status = 200, web = own } = {}) {
    const { route, method, operation } = byName.get(name);
    const place = pointer('paths', route, method);
    if (body !== undefined && status === 200) {
      assertFits(body, schemaPlace(`${place}/requestBody`, operation.requestBody), `the body of ${name}`);
    }
    const filled = route.replace('{id}', id).replace('{requestId}', requestId);
    const answer = await web.request(method.toUpperCase(), `${filled}${query}`, body === undefined ? {} : { body });
    assert.equal(answer.status, status, `${name}: ${answer.text}`);
    const described = operation.responses[status];
    assert.ok(described, `${name} does not say that it answers ${status}: ${answer.text}`);
    assertFits(answer.body, schemaPlace(`${place}/responses/${status}`, described), `${name} ${status}`);
    if (status === 200) answered.add(name);
    return answer.body;
  }

  /** Lets the CLI ask for permission; answers the request's id. */
  async function request(requestId) {
    const { agentStateVersion, agentState } = (await call('getSession', { id: session.id })).session;
    const requests = { [requestId]: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: Date.now() } };
    const state = { ...agentState, controlledByUser: false, requests };
    const ack = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: agentStateVersion, agentState: state });
    assert.equal(ack.result, 'success', JSON.stringify(ack));
    return requestId;
  }

  before(async () => {
    const metadata = { machineId: 'm-1', alphaSessionId: 'a-1', summary: { text: 'At work', updatedAt: 1 }, more: { of: ['it'] } };
    ({ session, cli } = await liveSession(suite, hub, { namespace: 'own', tag: '/code/described', metadata, agentState: {} }));
    feed = await own.sse({ all: 'true', sessionId: session.id });
    suite.after(() => feed.close());
    await own.registerMachine({ id: 'm-1' });
    machine = await connectCli(suite, hub, { namespace: 'own', auth: { machineId: 'm-1' } });
    await machine.emitWithAck('machine-alive', { machineId: 'm-1', time: Date.now() });
  });
  after(() => suite.end());

  test('of the hub, and of a CLI', async () => {
    await call('health', { web: hub.web('own', null) });
    await call('authenticate', { body: { accessToken: hub.token('own') }, web: hub.web('own', null) });
    const metadata = { path: '/code/other', host: 'e2e', flavor: 'beta' };
    const { session: other } = await call('putSession', { body: { tag: '/code/other', metadata, agentState: null } });
    await call('getSessionAsCli', { id: other.id });
    await call('putMachine', { body: { id: 'm-1', metadata: { host: 'e2e', platform: 'linux', more: 1 }, runnerState: [1] } });
    await call('getMachine', { id: 'm-1' });
  });

  test('of messages, permissions and todos', async () => {
    const { id } = session;
    await call('sendMessage', { id, body: { text: 'hello', localId: 'l-1' } });
    const attachment = { id: 'a', filename: 'f.txt', mimeType: 'text/plain', size: 1, path: '/tmp/f.txt' };
    await call('sendMessage', { id, body: { attachments: [attachment] } });
    const todos = [{ content: 'Look', status: 'in_progress' }];
    const block = { type: 'tool_use', name: 'TodoWrite', input: { todos } };
    await cli.sendMessage(id, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [block] } } } });
    for (const query of ['', '?limit=1', '?beforeSeq=2&limit=1', '?afterSeq=1&limit=1', '?afterSeq=3']) {
      await call('listMessages', { id, query });
      await call('listMessagesAsCli', { id, query });
    }
    await cli.serve('permission', () => ({}));
    const requestId = await request('r-1');
    await call('listSessions');
    const body = { mode: 'plan', allowTools: ['Bash'], decision: 'approved_for_session', answers: { Which: ['this'] } };
    await call('approve', { id, requestId, body });
    await call('deny', { id, requestId: await request('r-2'), body: { decision: 'abort', reason: 'Not now' } });
    await call('approve', { id, requestId: await request('r-3') });
    await call('approve', { id, requestId: 'r-3', status: 404 });
    const { session: now } = await call('getSession', { id });
    assert.equal(Object.keys(now.agentState.completedRequests).length, 3);
    assert.equal(now.todos.length, 1);
  });

  test('of the working directory, whether the CLI serves it or not', async () => {
    const results = {
      gitStatus: [{ success: true, branch: 'main', files: [{ path: 'a', status: 'modified', more: 1 }] }],
      gitDiffNumstat: [{ success: true, files: [{ path: 'a', added: 1, removed: 0 }] }, '?staged=true'],
      gitDiffFile: [{ success: true, diff: '+a' }, '?path=a'],
      readFile: [{ success: true, content: 'YQ==' }, '?path=a'],
      runRipgrep: [{ success: true, stdout: 'src/a.rs\n' }, '?query=a&limit=1', 'findFiles'],
      listDirectory: [{ success: true, entries: [{ name: 'src', type: 'directory' }, { name: 'a', type: 'file', size: 1 }] }, '?path=src'],
      listSlashCommands: [{ success: true, commands: ['/help'] }],
      listSkills: [{ success: true, skills: [{ name: 'review', description: 'Reviews' }] }],
    };
    for (const [method, [result, query, name = method]] of Object.entries(results)) {
      assert.equal((await call(name, { id: session.id, query })).success, false);
      await cli.serve(method, () => result);
      assert.equal((await call(name, { id: session.id, query })).success, true);
    }
    await call('readFile', { id: session.id, query: '?path=../a', status: 400 });
    const file = { filename: 'a.txt', content: 'YQ==', mimeType: 'text/plain' };
    await call('uploadFile', { id: session.id, body: file, status: 500 });
    await cli.serve('uploadFile', () => ({ success: true, path: '/tmp/a.txt' }));
    await call('uploadFile', { id: session.id, body: file });
    await cli.serve('deleteUploadFile', () => ({ success: false, error: 'It is in use.' }));
    await call('deleteUpload', { id: session.id, body: { path: '/tmp/a.txt' } });
  });

  test('of push, and what became of a notification', async () => {
    await call('vapidPublicKey');
    const browser = service.addBrowser();
    await call('subscribeToPush', { body: browser.subscription });
    await call('subscribeToPush', { body: { ...browser.subscription, keys: {} }, status: 400 });
    await request('r-4');
    await browser.next();
    const { log } = await call('pushLog');
    assert.equal(log[0].sessionId, session.id);
    await call('unsubscribeFromPush', { body: { endpoint: browser.subscription.endpoint } });
  });

  test('of machines', async () => {
    await call('listMachines');
    await call('showMachine', { id: 'm-1' });
    await call('spawnSession', { id: 'm-1', body: { directory: '/code' }, status: 503 });
    await machine.serve('spawnSession', ({ agent }) => ({ success: agent === 'alpha', sessionId: 's-1', error: 'No such agent here.' }));
    await call('spawnSession', { id: 'm-1', body: { directory: '/code', sessionType: 'simple', yolo: true } });
    await call('spawnSession', { id: 'm-1', body: { directory: '/code', agent: 'beta', worktreeName: null } });
    await call('checkPaths', { id: 'm-1', body: { paths: ['/code'] }, status: 500 });
    await machine.serve('checkPathExists', ({ paths }) => Object.fromEntries(paths.map((one) => [one, true])));
    await call('checkPaths', { id: 'm-1', body: { paths: ['/code', '/tmp'] } });
  });

  test('of a session’s life', async () => {
    const { id } = session;
    await call('renameSession', { id, body: { name: 'A name', expectedVersion: 1 } });
    await call('renameSession', { id, body: { name: 'A name', expectedVersion: 1 }, status: 409 });
    await cli.serve('set-session-config', (applied) => ({ applied }));
    await call('setPermissionMode', { id, body: { mode: 'plan' } });
    await call('setModel', { id, body: { model: 'model_fast' } });
    await call('setModel', { id, body: { model: 'fast' }, status: 400 });
    await cli.serve('switch', () => ({}));
    await call('switchSession', { id });
    await call('deleteSession', { id, status: 409 });
    await call('abortSession', { id, body: {}, status: 503 });
    await cli.serve('abort', () => ({}));
    await call('abortSession', { id, body: { reason: 'Enough' } });
    await call('sendMessage', { id, body: { text: 'hello' }, status: 409 });
    await machine.serve('spawnSession', async ({ sessionId }) => {
      await cli.keepAlive(sessionId);
      return { success: true, sessionId };
    });
    await call('resumeSession', { id });
    await cli.serve('killSession', () => ({}));
    await call('archiveSession', { id, body: {} });
    await call('listSessions', { query: '?archived=only' });
    await call('deleteSession', { id });
    await call('getSession', { id, status: 404 });
  });

  test('of events: each that was heard is one of those described', async () => {
    const { data } = await feed.waitForGreeting();
    await call('setVisibility', { body: { subscriptionId: data.subscriptionId, visibility: 'visible' } });
    await call('setVisibility', { body: { subscriptionId: 'none', visibility: 'hidden' }, status: 404 });
    await feed.nextEvent('session-removed', session.id);
    for (const event of feed.all) assertFits(event, '/components/schemas/Event', 'an event');
    const heard = new Set(feed.all.map(({ type }) => type));
    for (const type of ['session-added', 'session-updated', 'message-received', 'machine-updated']) assert.ok(heard.has(type), type);
    answered.add('events');
  });

  test('asks for a token where it says so', async () => {
    for (const [name, { operation, route }] of byName) {
      const options = { id: 'any', requestId: 'any', web: hub.web('own', null), status: 401 };
      if ((operation.security ?? api.security).length === 0) continue;
      await call(name, operation.requestBody ? { ...options, body: {} } : options);
      assert.ok(operation.responses[401], route);
    }
  });

  test('was called and has answered', () => {
    assert.deepEqual([...byName.keys()].filter((name) => !answered.has(name)), []);
  });
});
