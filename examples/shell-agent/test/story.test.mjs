/** The whole agent, against an in-memory hub. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { HubSocket } from 'session-gateway-cli-kit/hub-socket';
import { OutageMonitor } from 'session-gateway-cli-kit/outage';
import { TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { approve } from '../../../packages/cli-kit/test/support/app.mjs';
import { setUp } from './support/setup.mjs';
import { eventually, nextTurn } from '../../../packages/cli-kit/test/support/wait.mjs';

test('a command runs after its permission request is approved, and its output is sent', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  hub.postMessage(session.id, 'echo hello; echo problem >&2; exit 4');
  const id = await hub.waitUntil(() => hub.pendingRequest(session.id), 'a permission request');
  const stored = hub.sessions.get(session.id);
  assert.deepEqual(stored.agentState.requests[id].arguments, { command: 'echo hello; echo problem >&2; exit 4' });
  assert.deepEqual(hub.transcript(session.id), []);
  assert.deepEqual(await approve(hub, session.id), { success: true });
  assert.equal(stored.agentState.completedRequests[id].status, 'approved');
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['> echo hello; echo problem >&2; exit 4', '! hello\nproblem\n', 'Exit code 4.', '(ready)']);
  assert.deepEqual(stored.thinkingChanges.slice(-2), [true, false]);
});

test('messages can be built-in commands, commands of the directory, or attachments', async (t) => {
  const { hub, write, start } = await setUp(t);
  write('.agents/commands/greet.md', '```sh\necho "hello $1"\n```\n');
  const { session } = await start({ autoApprove: true });
  assert.deepEqual(hub.sessions.get(session.id).metadata.slashCommands, ['help', 'todo', 'greet']);
  const { path: file } = await hub.call(session.id, 'uploadFile', { filename: 'a.txt', content: btoa('attached'), mimeType: 'text/plain' });
  hub.postMessage(session.id, '/todo add write it');
  hub.postMessage(session.id, '/greet world');
  hub.postMessage(session.id, '/nothing');
  hub.postMessage(session.id, '/help');
  const attachments = [
    { filename: 'a.txt', path: file },
    { filename: 'x', path: '/etc/passwd' },
  ];
  hub.postMessage(session.id, 'cat "$ATTACHMENTS"; echo', attachments);
  await hub.untilReady(session.id, 5);
  const lines = hub.transcript(session.id);
  assert.deepEqual(lines.slice(0, 3), ['(todos: 1)', '1. [ ] write it', '(ready)']);
  assert.ok(lines.includes('hello world\n'));
  assert.ok(lines.includes('There is no command /nothing. Try /help.'));
  assert.ok(lines.some((line) => line.endsWith('/greet')));
  const list = `- a.txt (8 bytes): ${file}\n- x: ignored (not an upload of this session)`;
  assert.ok(lines.includes(`Attachments ($ATTACHMENTS has their paths):\n${list}`));
  assert.ok(lines.includes('attached\n'));
  hub.postMessage(session.id, '', attachments.slice(0, 1));
  await hub.untilReady(session.id, 6);
  assert.deepEqual(hub.transcript(session.id).slice(-2), [
    `Attachments ($ATTACHMENTS has their paths):\n- a.txt (8 bytes): ${file}`,
    '(ready)',
  ]);
});

test('the token is sent with the upgrade; with --bridged, it is sent only in CONNECT', async (t) => {
  const { hub, start } = await setUp(t);
  const app = await start();
  assert.equal(hub.upgradeToken, `Bearer ${TOKEN}`);
  await app.stop();
  await start({ bridged: true });
  assert.equal(hub.upgradeToken, undefined);
});

test('lost connections neither lose nor duplicate messages, in either direction', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start({ autoApprove: true });
  let lost = 0;
  // Seven times the hub stores a message, but its acknowledgement is lost with the connection.
  hub.dropAck = ({ seq }) => {
    if (lost === 7 || seq % 3 !== 0) return false;
    lost += 1;
    hub.cutConnections();
    return true;
  };
  const texts = Array.from({ length: 12 }, (_, i) => `echo ${i}`);
  for (const text of texts) hub.postMessage(session.id, text);
  await hub.untilReady(session.id, 12);
  assert.equal(lost, 7);
  assert.ok(hub.count('rpc-register') >= 2 * hub.registeredMethods(session.id).length);
  assert.deepEqual(
    hub.transcript(session.id),
    texts.flatMap((text, i) => [`> ${text}`, `${i}\n`, 'Exit code 0.', '(ready)']),
  );
});

test('the agent reconnects after the server disconnected it', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start({ autoApprove: true });
  hub.cli.disconnectSockets(true);
  hub.postMessage(session.id, 'echo back');
  await hub.untilReady(session.id, 1);
  assert.ok(hub.transcript(session.id).includes('back\n'));
});

test('a restarted agent continues after the last handled message, and repeats an open permission request', async (t) => {
  const { hub, dir, start } = await setUp(t);
  const first = await start({ autoApprove: true });
  hub.postMessage(first.session.id, 'echo x >> log');
  await hub.untilReady(first.session.id, 1);
  await hub.call(first.session.id, 'set-session-config', { permissionMode: 'default' });
  await first.stop();
  assert.equal(hub.sessions.get(first.session.id).active, false);
  assert.equal(hub.sessions.get(first.session.id).metadata.lifecycleState, 'completed');
  assert.deepEqual(hub.registeredMethods(first.session.id), []);
  hub.postMessage(first.session.id, 'echo y >> log');
  const second = await start();
  assert.equal(second.session.id, first.session.id);
  const stored = hub.sessions.get(first.session.id);
  await approve(hub, second.session.id);
  await hub.untilReady(first.session.id, 2);
  hub.postMessage(first.session.id, 'echo z >> log');
  const requestId = await hub.waitUntil(() => hub.pendingRequest(first.session.id), 'a permission request');
  await second.stop();
  const third = await start();
  await hub.waitUntil(() => stored.agentState.completedRequests[requestId]?.status === 'canceled', 'the old request to be canceled');
  await hub.waitUntil(() => hub.pendingRequest(third.session.id), 'a new request');
  await approve(hub, third.session.id);
  await hub.untilReady(third.session.id, 3);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\nz\n');
  assert.equal(stored.metadata.lifecycleState, 'running');
});

test('a command that cannot be started gets a failed result', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start({ autoApprove: true });
  // The length is above the system's limit for an argument.
  const command = `: ${'x'.repeat(3_000_000)}`;
  hub.postMessage(session.id, command);
  await hub.untilReady(session.id, 1);
  const [use, result, ...laterLines] = hub.transcript(session.id);
  assert.equal(use, `> ${command}`);
  assert.match(result, /^! .*E2BIG/);
  assert.deepEqual(laterLines, ['The command could not be started.', '(ready)']);
});

test('an agent without stored state does not run the commands of the history', async (t) => {
  const { hub, dir, start, home } = await setUp(t);
  const first = await start({ autoApprove: true });
  hub.postMessage(first.session.id, 'echo x >> log');
  await hub.untilReady(first.session.id, 1);
  await first.stop();
  rmSync(path.join(home, 'sessions'), { recursive: true });
  const second = await start({ autoApprove: true });
  hub.postMessage(second.session.id, 'echo y >> log');
  await hub.untilReady(second.session.id, 2);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'x\ny\n');
});

test('an invalid token and a deleted session end the agent with the reason', async (t) => {
  const { hub, start } = await setUp(t);
  await assert.rejects(start({ token: 'wrong' }), /does not accept the token.*npm run token -- NAMESPACE/);
  const app = await start();
  hub.sessions.delete(app.session.id);
  hub.cutConnections();
  assert.match((await app.ended).message, /session does not exist|Session not found/);
});

test('messages are kept while a token is refused, and are sent when the token is accepted again', async (t) => {
  const { hub, dir, log, start } = await setUp(t);
  const { session } = await start({ autoApprove: true, machine: true });
  hub.postMessage(session.id, 'until [ -e go ]; do sleep 0.05; done; echo done');
  await hub.waitUntil(() => hub.transcript(session.id).length === 1, 'the command to begin');
  hub.token = 'another';
  hub.cutConnections();
  while (log.warnings.length < 2) await nextTurn();
  assert.match(log.warnings[0], /Cannot reach the hub/);
  assert.match(log.warnings[1], /no longer accepts the token \(Invalid token\).*npm run token -- NAMESPACE/);
  writeFileSync(path.join(dir, 'go'), '');
  while (session.outbox.size < 3) await nextTurn();
  hub.token = TOKEN;
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id).slice(1), ['done\n', 'Exit code 0.', '(ready)']);
  assert.equal(log.warnings.length, 2, 'each refusal is logged once');
});

test('when one connection is restored, the others reconnect at once', async (t) => {
  const { hub, log } = await setUp(t);
  const outage = new OutageMonitor({ hub: hub.url, log });
  const sockets = ['first', 'second'].map((clientType, i) => {
    // Without the event `restored`, the second socket would retry after an hour.
    const reconnectDelayMs = i === 0 ? 10 : 3_600_000;
    const socket = new HubSocket({ hub: hub.url, token: TOKEN, auth: { clientType }, log, outage, reconnectDelayMs });
    t.after(() => socket.close());
    socket.connect();
    return socket;
  });
  await Promise.all(sockets.map((socket) => socket.whenConnected()));
  const reconnected = sockets.map((socket) => once(socket, 'connect'));
  hub.cutConnections();
  await Promise.all(reconnected);
  assert.deepEqual(log.infos, ['Connected to the hub again.']);
});

test('without a hub the error names its address, and the advice is logged once', async (t) => {
  const { log, start } = await setUp(t);
  const address = { hub: 'http://127.0.0.1:9' };
  await assert.rejects(start(address), /Cannot reach the hub at http:\/\/127\.0\.0\.1:9/);
  assert.deepEqual(log.warnings, []);
  await assert.rejects(start({ ...address, startTimeoutMs: 1000 }), /Cannot reach the hub/);
  assert.equal(log.warnings.length, 1);
  assert.match(log.warnings[0], /Cannot reach the hub at http:\/\/127\.0\.0\.1:9 \(.*\); retrying\./);
});

test('a repeated error of the hub is logged once', async (t) => {
  const { hub, log, start } = await setUp(t);
  const { session } = await start();
  for (let i = 0; i < 3; i += 1) hub.cli.emit('error', { message: 'The database is away', code: 'unavailable' });
  hub.cli.emit('error', { message: 'Something else', code: 'unavailable' });
  await session.socket.ping();
  assert.deepEqual(log.warnings, [
    'error from the hub: The database is away (unavailable)',
    'error from the hub: Something else (unavailable)',
  ]);
});

test('a 404 of a proxy does not end a session, and the session is read again until the read succeeds', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  await hub.waitUntil(() => stored.active, 'the session to start');
  Object.assign(hub, { outageStatus: 404, outageBody: 'There is no page here.' });
  hub.cutConnections();
  stored.metadata = { ...stored.metadata, name: 'Renamed while the agent was away' };
  stored.metadataVersion += 1;
  await hub.waitUntil(() => hub.refusedRequests >= 4, 'repeated reads');
  hub.outageStatus = undefined;
  await eventually(() => session.metadata.value.name === stored.metadata.name, 'the new name');
  assert.equal(session.isEnding, false);
});
