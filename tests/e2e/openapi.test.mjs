/** Calls each operation of docs/openapi.yaml and checks each response against its schema. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, ROOT, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { PushService } from './lib/push-service.mjs';

/** The refusal of a machine whose user does not trust the directory. */
const UNTRUSTED = { success: false, error: 'Trust it first.', code: 'untrusted_directory' };

const service = await new PushService().start({ after });
const hub = await startHub(
  { after },
  { vars: { PUSH_ALLOW_INSECURE: 'true', VAPID_SUBJECT: 'mailto:ops@example.org' }, wrappers: CLOCK_WORKER },
);

const API = 'https://hub.example.com/openapi';
const api = parse(readFileSync(path.join(ROOT, 'docs', 'openapi.yaml'), 'utf8'));
const METHODS = ['get', 'put', 'post', 'patch', 'delete'];
/** @type {[string, any][]} */
const operations = Object.entries(api.paths).flatMap(([route, item]) =>
  METHODS.filter((method) => item[method]).map(
    (method) => /** @type {[string, any]} */ ([item[method].operationId, { route, method, operation: item[method] }]),
  ),
);
const byName = new Map(operations);

/** Returns the schema with `additionalProperties: false` as the default, so that undocumented properties fail. */
function makeStrict(schema) {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(makeStrict);
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, makeStrict(value)]));
  const isObject = [schema.type].flat().includes('object') && schema.properties !== undefined;
  return isObject && schema.additionalProperties === undefined ? { ...copy, additionalProperties: false } : copy;
}

const ajv = new /** @type {any} */ (Ajv)({
  strict: false,
  allErrors: true,
  formats: { uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/ },
});
ajv.addSchema({ $id: API, ...makeStrict(api) });

/** Checks `value` against the schema at a JSON pointer in openapi.yaml. */
function assertValid(value, pointer, title) {
  const validate = ajv.getSchema(`${API}#${pointer}`);
  assert.ok(validate(value), `${title}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`);
}

const jsonPointer = (...names) => names.map((name) => `/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('');

/** Returns the JSON pointer to the schema of a request body or response, which may be a `$ref`. */
function schemaPointer(pointer, body) {
  return `${body.$ref === undefined ? pointer : body.$ref.slice(1)}/content/application~1json/schema`;
}

describe('every operation of docs/openapi.yaml', () => {
  const suite = new Lifetime();
  const own = hub.web('own');
  const succeeded = new Set();
  let session;
  let machine;
  let cli;
  let feed;

  /**
   * Calls an operation and checks its response.
   * @param {string} name its operationId
   * @param {{id?: string, code?: string, deviceId?: string, requestId?: string, ruleId?: string, localId?: string, seq?: string, query?: string, body?: unknown, status?: number, web?: import('../../scripts/product/clients/web.mjs').Web}} [options]
   */
  async function callOperation(
    name,
    {
      id = '',
      code = '',
      deviceId = '',
      requestId = '',
      ruleId = '',
      localId = 'l',
      seq = '1',
      query = '',
      body,
      status = 200,
      web = own,
    } = {},
  ) {
    const { route, method, operation } = byName.get(name);
    const pointer = jsonPointer('paths', route, method);
    if (body !== undefined && status === 200) {
      assertValid(body, schemaPointer(`${pointer}/requestBody`, operation.requestBody), `the body of ${name}`);
    }
    const params = { id, code, deviceId, requestId, ruleId, localId, seq };
    const url = route.replace(/\{(\w+)\}/g, (_, param) => params[param]);
    const response = await web.request(method.toUpperCase(), `${url}${query}`, body === undefined ? {} : { body });
    assert.equal(response.status, status, `${name}: ${response.text}`);
    const documented = operation.responses[status];
    assert.ok(documented, `${name}: status ${status} is not documented: ${response.text}`);
    assertValid(response.body, schemaPointer(`${pointer}/responses/${status}`, documented), `${name} ${status}`);
    if (status === 200) succeeded.add(name);
    return response.body;
  }

  /** Adds a permission request to the agent state and returns its id. */
  async function addRequest(requestId) {
    const { agentStateVersion, agentState } = (await callOperation('getSession', { id: session.id })).session;
    const requests = { [requestId]: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: Date.now() } };
    const state = { ...agentState, controlledByUser: false, requests };
    const ack = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: agentStateVersion, agentState: state });
    assert.equal(ack.result, 'success', JSON.stringify(ack));
    return requestId;
  }

  before(async () => {
    const metadata = { machineId: 'm-1', alphaSessionId: 'a-1', summary: { text: 'At work', updatedAt: 1 }, more: { of: ['it'] } };
    ({ session, cli } = await liveSession(suite, hub, { namespace: 'own', tag: '/code/described', metadata, agentState: {} }));
    feed = await own.openStream({ all: 'true', sessionId: session.id });
    suite.after(() => feed.close());
    await own.registerMachine({ id: 'm-1' });
    machine = await connectCli(suite, hub, { namespace: 'own', auth: { machineId: 'm-1' } });
    await machine.emitWithAck('machine-alive', { machineId: 'm-1', time: Date.now() });
  });
  after(() => suite.end());

  test('health, authentication and the CLI routes', async () => {
    await callOperation('health', { web: hub.webWithoutToken() });
    assert.equal((await callOperation('health', { query: '?deep=1', web: hub.webWithoutToken() })).database, 'ok');
    await callOperation('authenticate', { body: { accessToken: hub.token('own') }, web: hub.webWithoutToken() });
    const metadata = { path: '/code/other', host: 'e2e', flavor: 'beta' };
    await callOperation('showConfig');
    const { session: other } = await callOperation('putSession', { body: { tag: '/code/other', metadata, agentState: null } });
    await callOperation('getSessionAsCli', { id: other.id });
    await callOperation('putMachine', { body: { id: 'm-1', metadata: { host: 'e2e', platform: 'linux', more: 1 }, runnerState: [1] } });
    await callOperation('getMachine', { id: 'm-1' });
  });

  test('devices', async () => {
    const newcomer = hub.webWithoutToken();
    const device = { name: 'Phone', kind: 'phone' };
    const { code, deviceId } = await callOperation('createDeviceCode', { body: { name: 'Phone' } });
    await callOperation('getCodeUser', { deviceId });
    const added = await callOperation('addDevice', { body: { code, ...device }, web: newcomer });
    await callOperation('addDevice', { body: { code, ...device }, web: newcomer, status: 404 });
    await callOperation('getCodeUser', { deviceId });
    await callOperation('listDevices', { web: hub.web('own', added.token) });
    const request = await callOperation('requestDevice', { body: device, web: newcomer });
    const poll = { body: { secret: request.secret }, web: newcomer };
    await callOperation('claimDevice', poll);
    await callOperation('getDeviceRequest', { code: request.code });
    await callOperation('decideDeviceRequest', { code: request.code, body: { decision: 'approve' } });
    await callOperation('decideDeviceRequest', { code: request.code, body: { decision: 'deny' }, status: 409 });
    await callOperation('claimDevice', poll);
    const { id } = added.device;
    await callOperation('renameDevice', { id, body: { name: 'Old phone' } });
    await callOperation('revokeDevice', { id });
    const revoked = hub.web('own', added.token);
    const isRefused = async () => {
      // The worker may accept the revoked token for ten more seconds. The alarm of another namespace moves, so that no session expires.
      await hub.advance('clock', 10_000);
      return (await revoked.get('/api/machines')).status === 401;
    };
    await eventually(isRefused, 'the refusal of the revoked token');
    await callOperation('authenticate', { body: { accessToken: added.token }, web: newcomer, status: 401 });
    await callOperation('renameDevice', { id: 'none', body: { name: 'x' }, status: 404 });
    const operator = hub.web('revoked');
    await callOperation('getGeneration', { web: operator });
    await callOperation('revokeNamespace', { web: operator });
  });

  test('the life of a namespace', async () => {
    const operator = hub.web('moved');
    await operator.openSession({ tag: '/moved' });
    const { rows } = await callOperation('exportNamespace', { web: operator });
    await callOperation('exportNamespace', { web: operator, query: '?cursor=x', status: 400 });
    await callOperation('importNamespace', { web: operator, body: { step: 'begin' }, status: 409 });
    await callOperation('deleteNamespace', { web: operator });
    const isDone = async () => (await callOperation('deleteNamespace', { web: operator })).isDone;
    await eventually(isDone, 'the end of the deletion');
    for (const body of [{ step: 'begin' }, { step: 'rows', rows }, { step: 'end' }])
      await callOperation('importNamespace', { web: operator, body });
    await callOperation('importNamespace', { web: operator, body: { step: 'rows', rows }, status: 400 });
    await callOperation('listDatabases', { web: operator });
    await callOperation('moveNamespace', { web: operator, body: { to: 'DB' } });
    await callOperation('moveNamespace', { web: operator, body: { to: 'DB_9' }, status: 400 });
  });

  test('messages, permissions and todos', async () => {
    const { id } = session;
    await callOperation('sendMessage', { id, body: { text: 'hello', localId: 'l-1' } });
    const attachment = { id: 'a', filename: 'f.txt', mimeType: 'text/plain', size: 1, path: '/tmp/f.txt' };
    await callOperation('sendMessage', { id, body: { attachments: [attachment] } });
    const todos = [{ content: 'Look', status: 'in_progress' }];
    const block = { type: 'tool_use', name: 'TodoWrite', input: { todos } };
    await cli.emitWithAck('message-delta', { sid: id, id: 'm', text: 'hello', kind: 'text' });
    await cli.sendMessage(id, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [block] } } } });
    await cli.sendMessage(id, { role: 'agent', content: 'x'.repeat(70_000) });
    for (const query of ['', '?excerpts=true', '?limit=1', '?beforeSeq=2&limit=1', '?afterSeq=1&limit=1', '?afterSeq=3']) {
      await callOperation('listMessages', { id, query });
      await callOperation('listMessagesAsCli', { id, query });
    }
    await cli.serve('permission', () => ({}));
    const requestId = await addRequest('r-1');
    await callOperation('listSessions');
    const body = { mode: 'plan', allowTools: ['Bash'], decision: 'approved_for_session', answers: { Which: ['this'] } };
    await callOperation('approve', { id, requestId, body });
    await callOperation('deny', { id, requestId: await addRequest('r-2'), body: { decision: 'abort', reason: 'Not now' } });
    await callOperation('approve', { id, requestId: await addRequest('r-3') });
    await callOperation('approve', { id, requestId: 'r-3', status: 404 });
    await callOperation('approveByBody', { id, body: { requestId: await addRequest('..') } });
    await callOperation('denyByBody', { id, body: { requestId: await addRequest('.') } });
    await callOperation('denyByBody', { id, body: { requestId: '..' }, status: 404 });
    await cli.serve('readPermissionRequest', ({ part }) => ({ success: true, text: '{}', parts: 2, proof: `p${part}` }));
    assert.equal((await callOperation('readRequestContent', { id, requestId: 'r-4', query: '?part=1' })).proof, 'p1');
    await callOperation('approve', { id, requestId: await addRequest('r-4'), body: { answers: { proof: ['p0p1'] } } });
    await cli.serve('revokeSessionRule', () => ({ success: true }));
    await callOperation('revokeSessionRule', { id, ruleId: 'rule-1' });
    const { session: now } = await callOperation('getSession', { id });
    assert.equal(Object.keys(now.agentState.completedRequests).length, 6);
    assert.equal(now.todos.length, 1);
  });

  test('the working directory, with and without a CLI that serves the session', async () => {
    const results = {
      gitStatus: [
        {
          success: true,
          branch: 'main',
          files: [
            { path: 'a', status: 'modified', more: 1 },
            { path: 'b/', status: 'untracked', count: 3 },
          ],
          more: 7,
        },
        '?path=c&offset=2',
      ],
      gitDiffNumstat: [{ success: true, files: [{ path: 'a', added: 1, removed: 0 }] }, '?staged=true'],
      gitDiffFile: [{ success: true, diff: '+a' }, '?path=a'],
      readFile: [{ success: true, content: 'YQ==' }, '?path=a'],
      runRipgrep: [{ success: true, stdout: 'src/a.rs\n' }, '?query=a&limit=1', 'findFiles'],
      listDirectory: [
        {
          success: true,
          entries: [
            { name: 'src', type: 'directory' },
            { name: 'a', type: 'file', size: 1 },
          ],
          more: 1,
        },
        '?path=src&offset=1',
      ],
      listSlashCommands: [{ success: true, commands: ['/help'] }],
      listSkills: [{ success: true, skills: [{ name: 'review', description: 'Reviews' }] }],
    };
    for (const [method, [result, query, name = method]] of /** @type {[string, any[]][]} */ (Object.entries(results))) {
      assert.equal((await callOperation(name, { id: session.id, query })).success, false);
      await cli.serve(method, () => result);
      assert.equal((await callOperation(name, { id: session.id, query })).success, true);
    }
    await callOperation('readFile', { id: session.id, query: '?path=../a', status: 400 });
    const file = { filename: 'a.txt', content: 'YQ==', mimeType: 'text/plain' };
    await callOperation('uploadFile', { id: session.id, body: file, status: 500 });
    await cli.serve('uploadFile', () => ({ success: true, path: '/tmp/a.txt' }));
    await callOperation('uploadFile', { id: session.id, body: file });
    await cli.serve('deleteUploadFile', () => ({ success: false, error: 'It is in use.' }));
    await callOperation('deleteUpload', { id: session.id, body: { path: '/tmp/a.txt' } });
  });

  test('push and its log', async () => {
    await callOperation('vapidPublicKey');
    const browser = service.addBrowser();
    await callOperation('subscribeToPush', { body: browser.subscription });
    await callOperation('subscribeToPush', { body: { ...browser.subscription, keys: {} }, status: 400 });
    await addRequest('r-4');
    await browser.next();
    // The push service has the notification before the hub has its answer.
    const log = await eventually(async () => {
      const answer = await callOperation('pushLog');
      return answer.log[0].outcome === 'sent' && answer.log;
    }, 'the log of the push');
    assert.equal(log[0].sessionId, session.id);
    const status = await callOperation('showStatus');
    assert.deepEqual(status.pushes, log.slice(0, 5));
    assert.equal(status.namespace, 'own');
    await callOperation('unsubscribeFromPush', { body: { endpoint: browser.subscription.endpoint } });
  });

  test('machines', async () => {
    await callOperation('listMachines');
    await callOperation('showMachine', { id: 'm-1' });
    await callOperation('spawnSession', { id: 'm-1', body: { directory: '/code' }, status: 503 });
    await machine.serve('spawnSession', ({ agent }) => ({ success: agent === 'alpha', sessionId: 's-1', error: 'No such agent here.' }));
    await callOperation('spawnSession', { id: 'm-1', body: { directory: '/code', sessionType: 'simple', yolo: true } });
    await callOperation('spawnSession', { id: 'm-1', body: { directory: '/code', agent: 'beta', worktreeName: null } });
    await machine.serve('spawnSession', () => UNTRUSTED);
    const { code } = await callOperation('spawnSession', { id: 'm-1', body: { directory: '/code', trust: false } });
    assert.equal(code, UNTRUSTED.code);
    await callOperation('checkPaths', { id: 'm-1', body: { paths: ['/code'] }, status: 500 });
    await machine.serve('checkPathExists', ({ paths }) => Object.fromEntries(paths.map((path) => [path, true])));
    await callOperation('checkPaths', { id: 'm-1', body: { paths: ['/code', '/tmp'] } });
  });

  test('the directories of a machine, and the sessions of its agents', async () => {
    const known = { id: 'a-1', title: 'Fix the login', directory: '/code', updatedAt: 1, sessionId: session.id };
    const results = {
      listDirectory: [
        { success: true, path: '/', entries: [{ name: 'code', path: '/code' }], roots: ['/'] },
        '?path=/',
        'listMachineDirectory',
      ],
      listBranches: [
        { success: true, current: 'main', branches: ['main', 'next'], available: ['next'] },
        '?path=/code',
        'listMachineBranches',
      ],
      listAgentSessions: [{ success: true, sessions: [known], nextCursor: 'n' }, '?agent=claude&directory=/code&cursor=c'],
    };
    for (const [method, [result, query, name = method]] of /** @type {[string, any[]][]} */ (Object.entries(results))) {
      assert.equal((await callOperation(name, { id: 'm-1', query })).success, false);
      await machine.serve(method, () => result);
      assert.equal((await callOperation(name, { id: 'm-1', query })).success, true);
    }
    const body = { agent: 'claude', id: 'a-1', directory: '/code' };
    await callOperation('importAgentSession', { id: 'm-1', body });
    await machine.serve('importAgentSession', () => ({ success: true, sessionId: session.id }));
    assert.equal((await callOperation('importAgentSession', { id: 'm-1', body })).success, true);
  });

  test('the queue, the options of the agent, and a fork', async () => {
    const { id } = session;
    await callOperation('orderQueue', { id, body: { seqs: [2, 1] }, status: 503 });
    await cli.serve('queue', ({ action }) =>
      action === 'cancel' ? { success: false, code: 'not_queued', error: 'It runs.' } : { success: true },
    );
    await callOperation('orderQueue', { id, body: { seqs: [2, 1] } });
    await callOperation('editQueuedMessage', { id, body: { text: 'other' } });
    await callOperation('sendQueuedMessage', { id });
    await callOperation('cancelQueuedMessage', { id, status: 409 });
    await cli.serve('queue', () => ({ success: true }));
    await callOperation('cancelQueuedMessage', { id });
    await callOperation('setOption', { id, body: { id: 'effort', value: 'high' }, status: 409 });
    await cli.serve('set-session-option', () => ({ success: true }));
    await callOperation('setOption', { id, body: { id: 'effort', value: 'high' } });
    await callOperation('forkSession', { id, body: { seq: 1 }, status: 503 });
    await machine.serve('forkSession', () => ({ success: true, sessionId: 's-2' }));
    await callOperation('forkSession', { id, body: { seq: 1, sessionType: 'worktree', worktreeName: 'try' } });
  });

  test('changes of a session, from renaming to deleting', async () => {
    const { id } = session;
    await callOperation('changeSession', { id, body: { name: 'A name', expectedVersion: 1 } });
    await callOperation('changeSession', { id, body: { pinned: true, muted: true } });
    await addRequest('r-5');
    const { items } = await callOperation('listInbox', { query: '?limit=1' });
    assert.deepEqual([items[0].kind, items[0].session.id], ['request', id]);
    await callOperation('listInbox', { query: '?cursor=x', status: 400 });
    await callOperation('markSeen', { id, body: { at: 1 } });
    await callOperation('markSeen', { id, body: { at: 'now' }, status: 400 });
    await callOperation('changeSession', { id, body: { name: 'A name', expectedVersion: 1 }, status: 409 });
    await cli.serve('set-session-config', (applied) => ({ applied }));
    await callOperation('setPermissionMode', { id, body: { mode: 'plan' } });
    await callOperation('setModel', { id, body: { model: 'model_fast' } });
    await callOperation('setModel', { id, body: { model: 'fast' }, status: 400 });
    await cli.serve('switch', () => ({}));
    await callOperation('switchSession', { id });
    await callOperation('deleteSession', { id, status: 409 });
    await callOperation('abortSession', { id, body: {}, status: 503 });
    await cli.serve('abort', () => ({}));
    await callOperation('abortSession', { id, body: { reason: 'Enough' } });
    await callOperation('sendMessage', { id, body: { text: 'hello' }, status: 409 });
    const { id: away } = await own.openSession({ tag: '/away' });
    const left = await callOperation('sendMessage', { id: away, body: { text: 'for later', localId: 'left', hold: true } });
    assert.equal(left.held, true);
    assert.equal((await callOperation('listHeldMessages', { id: away })).messages[0].text, 'for later');
    await callOperation('cancelHeldMessage', { id: away, localId: 'left' });
    await callOperation('cancelHeldMessage', { id: away, localId: 'left', status: 404 });
    await callOperation('deleteSession', { id, status: 409 });
    await cli.emitWithAck('session-end', { sid: id });
    await machine.serve('spawnSession', () => UNTRUSTED);
    await callOperation('resumeSession', { id, body: { trust: null }, status: 409 });
    await machine.serve('spawnSession', async ({ sessionId }) => {
      await cli.keepAlive(sessionId);
      return { success: true, sessionId };
    });
    await callOperation('resumeSession', { id });
    await cli.serve('killSession', () => ({}));
    await callOperation('archiveSession', { id, body: {} });
    for (const query of ['?archived=only', '?archived=include&limit=1']) await callOperation('listSessions', { query });
    await callOperation('deleteSession', { id });
    await callOperation('getSession', { id, status: 404 });
  });

  test('events', async () => {
    const { data } = await feed.waitForGreeting();
    await callOperation('setVisibility', { body: { subscriptionId: data.subscriptionId, visibility: 'visible' } });
    await callOperation('setVisibility', { body: { subscriptionId: 'none', visibility: 'hidden' }, status: 404 });
    await feed.nextEvent('session-removed', session.id);
    for (const event of feed.all) assertValid(event, '/components/schemas/Event', 'an event');
    const types = new Set(feed.all.map(({ type }) => type));
    for (const type of ['session-added', 'session-updated', 'message-received', 'message-delta', 'machine-updated'])
      assert.ok(types.has(type), type);
    succeeded.add('events');
  });

  test('answers from a notification', async (t) => {
    const browser = service.addBrowser();
    assert.equal((await hub.web('answers').post('/api/push/subscribe', browser.subscription)).status, 200);
    const asking = await liveSession(t, hub, { namespace: 'answers', tag: 'demo' });
    await asking.cli.serve('permission', () => ({ success: true }));
    const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'npm test' } } } };
    await asking.cli.emitWithAck('update-state', { sid: asking.session.id, expectedVersion: 1, agentState });
    const { answerToken: token } = (await browser.next()).payload.data;
    const options = { web: hub.webWithoutToken(), body: { token, decision: 'approved' } };
    await callOperation('answerFromNotification', options);
    await callOperation('answerFromNotification', { ...options, status: 410 });
  });

  test('answers 401 without a token if the 401 is documented', async () => {
    for (const [name, { operation, route }] of byName) {
      const options = { id: 'any', requestId: 'any', web: hub.webWithoutToken(), status: 401 };
      if ((operation.security ?? api.security).length === 0) continue;
      await callOperation(name, operation.requestBody ? { ...options, body: {} } : options);
      assert.ok(operation.responses[401], route);
    }
  });

  test('was called with success', () => {
    assert.deepEqual(
      [...byName.keys()].filter((name) => !succeeded.has(name)),
      [],
    );
  });
});
