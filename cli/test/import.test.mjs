/** The import of sessions that an agent already has: their list, their history, and the turns that follow. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { setUp } from './support/setup.mjs';

const LISTS = { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, list: {} } } };

const text = (sessionUpdate, value, more = {}) => ({ sessionUpdate, content: { type: 'text', text: value }, ...more });
const user = (value, more) => text('user_message_chunk', value, more);
const agent = (value) => text('agent_message_chunk', value);

/** A script with one session, which has a history. */
const withHistory =
  (history) =>
  ({ dir }) => ({ initialize: LISTS, sessions: [[{ sessionId: 'old', cwd: dir, title: 'Old' }]], history });

/** Starts a machine whose agent has the sessions of a script. `script` may depend on the directory. */
async function setUpImport(t, makeScript, options = {}) {
  const fixture = await setUp(t);
  const script = makeScript(fixture);
  fixture.setScript(script);
  for (const page of script.sessions ?? []) for (const listed of page) if (listed) addSession(fixture, listed.sessionId);
  const app = await fixture.start({ machine: true, ...options });
  const { hub, dir } = fixture;
  const list = (params = {}) => hub.call(app.machine.id, 'listAgentSessions', { agent: 'alpha', ...params });
  const importSession = (/** @type {any} */ id, /** @type {{directory?: string}} */ params = { directory: dir }) =>
    hub.call(app.machine.id, 'importAgentSession', { agent: 'alpha', id, ...params });
  const importOld = async () => {
    const { sessionId, error } = await importSession('old');
    assert.ok(sessionId, error);
    return sessionId;
  };
  const messagesOf = (sid) => hub.sessions.get(sid).messages.map(({ content }) => shown(content));
  const untilImported = (sid, count) =>
    hub.waitUntil(() => {
      const { messages, metadata } = hub.sessions.get(sid);
      return messages.length >= count && metadata.alphaSessionId && metadata.importedMessages === undefined && metadata.summary;
    }, `${count} imported messages`);
  return { ...fixture, app, list, importSession, importOld, messagesOf, untilImported };
}

const addSession = ({ scriptHome }, id) => writeFileSync(path.join(scriptHome, `${id}.session`), '{}');

/** A message in one line. */
function shown({ role, content }) {
  if (role === 'user') return `user: ${content.text}`;
  if (content.type === 'event' || content.data.type === 'queue') return `(${content.data.type})`;
  const [part] = content.data.message.content;
  if (part.type === 'tool_use') return `> ${part.input.command}`;
  return part.type === 'tool_result' ? `= ${part.content}` : part.text;
}

test('the sessions of an agent in the served directories are listed, newest first, and pages continue', async (t) => {
  const session = (number, cwd) => ({
    sessionId: `s-${number}`,
    cwd,
    title: `Title ${number}\nand more`,
    updatedAt: new Date(number * 1000).toISOString(),
  });
  const { list, dir } = await setUpImport(t, ({ dir }) => ({
    initialize: LISTS,
    sessions: [
      Array.from({ length: 60 }, (_, index) => session(index + 1, dir)),
      [{ sessionId: 'elsewhere', cwd: '/etc', title: 'Secret' }],
      [
        { ...session(0, dir), title: 'New session - 2026' },
        { sessionId: '--flag', cwd: dir },
        { sessionId: 'no-directory' },
        null,
        { sessionId: 'relative', cwd: 'a' },
      ],
    ],
  }));
  const first = await list();
  assert.equal(first.success, true, first.error);
  assert.equal(first.sessions.length, 50);
  assert.deepEqual(first.sessions[0], { id: 's-60', title: 'Title 60', directory: dir, updatedAt: 60_000 });
  const second = await list({ cursor: first.nextCursor });
  assert.deepEqual(
    second.sessions.map(({ id, title }) => [id, title]),
    [...Array.from({ length: 10 }, (_, index) => [`s-${10 - index}`, `Title ${10 - index}`]), ['s-0', undefined]],
  );
  assert.equal(second.nextCursor, undefined);
  assert.deepEqual((await list({ directory: path.join(dir, 'other') })).sessions, []);
  assert.deepEqual(await list({ cursor: 'nonsense' }), { success: false, error: '"cursor" is not valid.' });
});

test("sessions are listed in the order of the agent's pages, also if a later page has a newer session", async (t) => {
  const { list } = await setUpImport(t, ({ dir }) => {
    const session = (number) => ({ sessionId: `s-${number}`, cwd: dir, updatedAt: new Date(number * 1000).toISOString() });
    return {
      initialize: LISTS,
      sessions: [
        [session(1), session(2)],
        [session(3), session(4)],
      ],
    };
  });
  const { sessions, error } = await list();
  assert.deepEqual(
    sessions?.map(({ id }) => id),
    ['s-2', 's-1', 's-4', 's-3'],
    error,
  );
});

test('if an agent does not list its sessions, the answer says so', async (t) => {
  const { list } = await setUpImport(t, () => ({ initialize: { agentCapabilities: { loadSession: true } } }));
  const { success, error } = await list();
  assert.equal(success, false);
  assert.match(error, /^node does not list its sessions\. /);
});

test('a list that takes longer than the hub waits is returned to the next request', async (t) => {
  const { list, calls } = await setUpImport(
    t,
    ({ dir }) => ({ initialize: LISTS, startDelayMs: 300, sessions: [[{ sessionId: 'old', cwd: dir }]] }),
    { listTimeoutMs: 100 },
  );
  const before = calls('session/list').length;
  assert.match((await list()).error, /still starting\. Try again/);
  await eventually(() => calls('session/list').length > before, 'the list');
  let second = await list();
  while (!second.success) second = await list();
  assert.equal(second.sessions[0].id, 'old');
  assert.equal(calls('session/list').length, before + 1);
});

test('an imported session has its messages in order, and continues with its context', async (t) => {
  const call = { toolCallId: 'call-1', title: 'ls', kind: 'execute', rawInput: { command: 'ls' } };
  const { hub, importSession, messagesOf, untilImported, calls, list, prompt, app } = await setUpImport(t, ({ dir }) => ({
    initialize: LISTS,
    sessions: [[{ sessionId: 'old', cwd: dir, title: 'An old session' }]],
    history: {
      updates: [
        user('Look around', { messageId: 'm1' }),
        user('in here', { messageId: 'm1' }),
        { ...user('for the model'), content: { type: 'text', text: 'hidden', annotations: { audience: ['assistant'] } } },
        text('agent_thought_chunk', 'hm'),
        agent('I will '),
        agent('look.'),
        { sessionUpdate: 'tool_call', status: 'in_progress', ...call },
        {
          sessionUpdate: 'tool_call_update',
          toolCallId: 'call-1',
          status: 'completed',
          content: [{ type: 'content', content: { type: 'text', text: 'a.txt' } }],
        },
        agent('Done.'),
        user('Thanks'),
        agent('Welcome.'),
      ],
    },
  }));
  const { success, sessionId, error } = await importSession('old', {});
  assert.equal(success, true, error);
  await untilImported(sessionId, 8);
  const imported = ['user: Look around\nin here', undefined, 'I will look.', '> ls', '= a.txt', 'Done.', 'user: Thanks', 'Welcome.'];
  assert.deepEqual(messagesOf(sessionId), imported);
  const { metadata } = hub.sessions.get(sessionId);
  assert.equal(metadata.summary.text, 'An old session');
  assert.equal(metadata.alphaSessionId, 'old');
  assert.equal(calls('session/prompt').length, 0, 'no imported message is sent to the agent');
  assert.equal((await list()).sessions[0].sessionId, sessionId);
  prompt(sessionId, [{ say: 'Still here.' }]);
  await hub.untilReady(sessionId, 1);
  assert.equal(calls('session/prompt')[0].sessionId, 'old');
  const { length } = messagesOf(sessionId);
  assert.deepEqual(await importSession('old'), { success: true, sessionId });
  assert.equal(messagesOf(sessionId).length, length);
  assert.equal(app.session.id === sessionId, false);
});

test('a session with a message that is too long is opened: its history has a note in place of the message, and the session continues', async (t) => {
  const { hub, importSession, messagesOf, untilImported, prompt } = await setUpImport(t, ({ dir }) => ({
    initialize: LISTS,
    sessions: [[{ sessionId: 'old', cwd: dir, title: 'An old session' }]],
    history: { updates: [user('Look around'), agent('I look.'), user('All of it')], turns: 1, size: 33 * 1024 * 1024 },
  }));
  const { success, sessionId, error } = await importSession('old', {});
  assert.equal(success, true, error);
  await untilImported(sessionId, 4);
  const imported = messagesOf(sessionId);
  assert.ok(imported.includes('A message of the agent has 34 MiB. The limit is 32 MiB. It is not shown.'), imported.join('\n'));
  for (const kept of ['user: Look around', 'I look.']) assert.ok(imported.includes(kept), imported.join('\n'));
  prompt(sessionId, [{ say: 'Still here.' }]);
  await hub.untilReady(sessionId, 1);
  assert.equal(messagesOf(sessionId).at(-2), 'Still here.');
});

test('a history that is replayed again after the end of the bridge adds nothing', async (t) => {
  const { hub, importSession, importOld, messagesOf, untilImported, calls, home } = await setUpImport(t, withHistory({ turns: 3 }));
  const sessionId = await importOld();
  await untilImported(sessionId, 6);
  const stored = hub.sessions.get(sessionId);
  const before = messagesOf(sessionId);
  const { hostPid } = stored.metadata;
  await hub.archive(sessionId);
  await eventually(() => !isRunning(hostPid), 'the end of the process');
  // As if the process had been killed before it recorded that the import is complete.
  const files = readdirSync(path.join(home, 'sessions')).filter((name) => name.endsWith('.json'));
  const [file] = files.map((name) => path.join(home, 'sessions', name)).filter((name) => readState(name).sessionId === sessionId);
  const state = readState(file);
  assert.equal(state.saved.history, undefined);
  writeFileSync(file, JSON.stringify({ ...state, saved: { ...state.saved, history: 'import' } }));
  const { length } = calls('session/load');
  assert.deepEqual(await importSession('old', {}), { success: true, sessionId });
  await eventually(() => readState(file).saved.history === undefined, 'the end of the second import');
  assert.equal(calls('session/load').length, length + 1);
  assert.deepEqual(messagesOf(sessionId), before);
});

const readState = (file) => JSON.parse(readFileSync(file, 'utf8'));

test('a second import after the session was deleted at the hub imports it again', async (t) => {
  const { hub, importSession, untilImported, list } = await setUpImport(t, withHistory({ turns: 2 }));
  const { sessionId } = await importSession('old');
  await untilImported(sessionId, 4);
  const { hostPid } = hub.sessions.get(sessionId).metadata;
  await hub.archive(sessionId);
  await eventually(() => !isRunning(hostPid), 'the end of the process');
  hub.sessions.delete(sessionId);
  assert.equal((await list()).sessions[0].sessionId, undefined);
  const again = await importSession('old');
  assert.notEqual(again.sessionId, sessionId);
  await untilImported(again.sessionId, 4);
});

test('an unknown session, a session elsewhere and a hostile id are refused, and leave no session at the hub', async (t) => {
  const { hub, importSession } = await setUpImport(t, withHistory({ turns: 1 }));
  const before = hub.sessions.size;
  assert.match((await importSession('gone')).error, /^node cannot open a session: Session not found: gone/);
  assert.match((await importSession('gone', {})).error, /lists no session gone in the directories/);
  assert.match((await importSession('old', { directory: '/etc' })).error, /outside the directories/);
  assert.match((await importSession('--import')).error, /^"id" must be/);
  assert.match((await importSession({ a: 1 })).error, /^"id" must be/);
  assert.equal(hub.sessions.size, before);
});

test('two imports of a session at once start it once', async (t) => {
  const { hub, importSession, untilImported } = await setUpImport(t, withHistory({ turns: 5, waitMs: 20 }));
  const before = hub.sessions.size;
  const [first, second] = await Promise.all([importSession('old'), importSession('old')]);
  assert.deepEqual(first, second);
  await untilImported(first.sessionId, 10);
  assert.equal(hub.sessions.size, before + 1);
});

test('an import that was killed in the middle continues, and stores each message once and in order', async (t) => {
  const { hub, importOld, messagesOf, untilImported, app, setScript } = await setUpImport(t, withHistory({ turns: 200, waitMs: 10 }));
  const sessionId = await importOld();
  const stored = hub.sessions.get(sessionId);
  await hub.waitUntil(() => stored.messages.length > 20, 'the first messages');
  process.kill(stored.metadata.hostPid, 'SIGKILL');
  await hub.waitUntil(() => !stored.active, 'the end of the session');
  const { length } = stored.messages;
  assert.ok(length < 400, `${length} messages`);
  setScript({ initialize: LISTS, sessions: [[{ sessionId: 'old', cwd: stored.metadata.path, title: 'Old' }]], history: { turns: 200 } });
  assert.deepEqual(await hub.call(app.machine.id, 'importAgentSession', { agent: 'alpha', id: 'old' }), { success: true, sessionId });
  await untilImported(sessionId, 400);
  assert.deepEqual(
    messagesOf(sessionId).map((line) => line.trim()),
    turnsOf(200),
  );
});

/** The lines of the first turns of a history. */
const turnsOf = (count) => Array.from({ length: count }, (_, index) => [`user: Question ${index + 1}`, `Answer ${index + 1}`]).flat();

/** The place of the record that the agent receives a message. */
const startOf = ({ messages }, { id }) =>
  messages.findIndex(({ content }) => content.content.data?.queued?.some((change) => change.id === id && change.change === 'started'));

test('a message that is written during an import is queued, and follows the history', async (t) => {
  const { hub, importOld, messagesOf, calls } = await setUpImport(t, withHistory({ turns: 100, waitMs: 20 }));
  const sessionId = await importOld();
  const stored = hub.sessions.get(sessionId);
  const [sent, canceled] = [hub.postMessage(sessionId, 'Meanwhile.'), hub.postMessage(sessionId, 'Never mind.')];
  await hub.waitUntil(() => stored.agentState.queuedMessages?.length === 2, 'the queue');
  assert.deepEqual(await hub.call(sessionId, 'queue', { action: 'cancel', seq: canceled.seq }), { success: true });
  assert.ok(!messagesOf(sessionId).includes('Answer 100 '), 'the import still runs');
  assert.notEqual(stored.thinking, true);
  await hub.untilReady(sessionId, 1);
  const start = startOf(stored, sent);
  assert.deepEqual(
    stored.messages.slice(start + 1).map(({ content }) => shown(content)),
    ['You said: Meanwhile.', '(ready)'],
  );
  assert.equal(
    messagesOf(sessionId)
      .slice(0, start)
      .filter((line) => /^(user: Question|Answer) /.test(line)).length,
    200,
  );
  assert.deepEqual(
    calls('session/prompt').map(({ prompt }) => prompt[0].text),
    ['Meanwhile.'],
  );
});

test('an agent that crashes in the replay is started again by the next message, after which the history is complete', async (t) => {
  const { hub, importOld, messagesOf, prompt } = await setUpImport(t, withHistory({ turns: 100, waitMs: 10, crashAfter: 60 }));
  const sessionId = await importOld();
  const isLine = (/** @type {RegExp} */ pattern) => messagesOf(sessionId).some((line) => pattern.test(line));
  await hub.waitUntil(() => isLine(/ended unexpectedly|did not start/), 'the reason');
  const sent = prompt(sessionId, [{ say: 'Complete.' }]);
  await hub.untilReady(sessionId, 1);
  const stored = hub.sessions.get(sessionId);
  assert.deepEqual(
    stored.messages.slice(startOf(stored, sent) + 1).map(({ content }) => shown(content)),
    ['Complete.', '(ready)'],
    'the message follows the rest of the history',
  );
  const imported = messagesOf(sessionId).filter((line) => /^(user: Question|Answer) \d+/.test(line.trim()));
  assert.deepEqual(
    imported.map((line) => line.trim()),
    turnsOf(100),
  );
});

test('a history of 5,000 messages is stored by a process that has less memory than the history', async (t) => {
  limitHeap(t, 64);
  // The history has 100 MB.
  const { hub, importOld, untilImported } = await setUpImport(t, withHistory({ turns: 2500, size: 40_000 }));
  const sessionId = await importOld();
  const stored = hub.sessions.get(sessionId);
  const { hostPid } = stored.metadata;
  const imported = [];
  hub.on('change', () => stored.metadata.importedMessages && imported.push(stored.metadata.importedMessages));
  // Waits as long as the number of messages grows, because a busy computer needs minutes.
  while (stored.messages.length < 5000) {
    const { length } = stored.messages;
    await hub.waitUntil(() => stored.messages.length > length, `more than ${length} messages`);
  }
  await untilImported(sessionId, 5000);
  assert.ok(imported.length > 0 && imported.every((count) => count <= 5000), 'the progress is published');
  // If the process had run out of memory, another process would have continued.
  assert.equal(stored.metadata.hostPid, hostPid);
  assert.equal(process.kill(hostPid, 0), true);
});

/** Limits the heap of each Node process that the test starts, in MB. */
function limitHeap(t, megabytes) {
  const { NODE_OPTIONS } = process.env;
  process.env.NODE_OPTIONS = `--max-old-space-size=${megabytes}`;
  t.after(() => {
    if (NODE_OPTIONS === undefined) delete process.env.NODE_OPTIONS;
    else process.env.NODE_OPTIONS = NODE_OPTIONS;
  });
}
