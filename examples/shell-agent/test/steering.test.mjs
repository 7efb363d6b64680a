/** The controls of a session: permissions, modes, terminal or web control, abort, and ending it. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { approve } from '../../../packages/cli-kit/test/support/app.mjs';
import { setUp } from './support/setup.mjs';

test('a denied command is not run, and after an approval for the session there is no further request', async (t) => {
  const { hub, dir, start } = await setUp(t);
  const { session } = await start();
  hub.postMessage(session.id, 'touch made');
  const id = await hub.waitUntil(() => hub.pendingRequest(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'denied', reason: 'Not here' });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['> touch made', '! Denied.\nReason: Not here', '(ready)']);
  assert.equal(existsSync(path.join(dir, 'made')), false);
  hub.postMessage(session.id, 'touch one');
  await approve(hub, session.id, { decision: 'approved_for_session' });
  hub.postMessage(session.id, 'touch two');
  await hub.untilReady(session.id, 3);
  assert.ok(existsSync(path.join(dir, 'one')) && existsSync(path.join(dir, 'two')));
});

test('an approval of ls for the session does not run another program, nor a compound command that begins with ls', async (t) => {
  const { hub, dir, start } = await setUp(t);
  const { session } = await start();
  hub.postMessage(session.id, 'ls -a');
  await approve(hub, session.id, { decision: 'approved_for_session' });
  hub.postMessage(session.id, 'ls');
  await hub.untilReady(session.id, 2);
  for (const command of ['touch dangerous && ls', 'ls && touch dangerous', 'ls $(touch dangerous)']) {
    hub.postMessage(session.id, command);
    const id = await hub.waitUntil(() => hub.pendingRequest(session.id), `a permission request for ${command}`);
    await hub.call(session.id, 'permission', { id, approved: false });
    await hub.waitUntil(() => !hub.pendingRequest(session.id), 'the answer');
  }
  assert.equal(existsSync(path.join(dir, 'dangerous')), false);
});

test('an approval for the session does not apply after the shell has moved to another folder', async (t) => {
  const { hub, dir, start } = await setUp(t);
  const { session } = await start();
  hub.postMessage(session.id, 'touch one');
  await approve(hub, session.id, { decision: 'approved_for_session' });
  hub.postMessage(session.id, 'mkdir .hidden && cd .hidden');
  await approve(hub, session.id, {});
  hub.postMessage(session.id, 'touch two');
  const id = await hub.waitUntil(() => hub.pendingRequest(session.id), 'a permission request in the folder');
  assert.equal(hub.sessions.get(session.id).agentState.requests[id].sessionRule.label, 'exactly `touch two`');
  await hub.call(session.id, 'permission', { id, approved: false });
  await hub.untilReady(session.id, 3);
  assert.equal(existsSync(path.join(dir, '.hidden', 'two')), false);
});

test('abort ends the running command and drops the queued messages', async (t) => {
  const { hub, dir, start } = await setUp(t);
  const { session } = await start({ autoApprove: true });
  hub.postMessage(session.id, 'echo first; sleep 600');
  hub.postMessage(session.id, 'touch second');
  await hub.waitUntil(() => hub.transcript(session.id).includes('first\n'), 'the first output');
  const answer = await hub.call(session.id, 'abort', { reason: 'enough' });
  assert.deepEqual(answer, { success: true, aborted: true, dropped: 1 });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), [
    '> echo first; sleep 600',
    'first\n',
    '(message: Dropped, not run:\ntouch second)',
    '! ',
    'Aborted. Ended by SIGTERM.',
    '(ready)',
  ]);
  assert.equal(existsSync(path.join(dir, 'second')), false);
  hub.postMessage(session.id, 'echo again');
  await hub.untilReady(session.id, 2);
  assert.ok(hub.transcript(session.id).includes('again\n'));
});

test('an answer with the decision to abort drops the queued messages', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  hub.postMessage(session.id, 'echo one');
  hub.postMessage(session.id, 'echo two');
  const id = await hub.waitUntil(() => hub.pendingRequest(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'abort' });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id).sort(), [
    '! Denied and aborted.',
    '(message: Dropped, not run:\necho two)',
    '(ready)',
    '> echo one',
  ]);
  assert.equal(hub.pendingRequest(session.id), undefined);
});

test('after an abort the agent sends a keep-alive at once', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start({ keepAliveIntervalMs: 2 ** 30 });
  const stored = hub.sessions.get(session.id);
  assert.deepEqual(await hub.abort(session.id), { success: true, aborted: false, dropped: 0 });
  assert.equal(stored.active, false);
  await hub.waitUntil(() => stored.active, 'the session to be active');
  hub.postMessage(session.id, 'sleep 600');
  await approve(hub, session.id);
  await hub.waitUntil(() => stored.thinking, 'the agent to think');
  assert.equal((await hub.abort(session.id)).aborted, true);
  await hub.waitUntil(() => stored.active, 'the session to be active again');
  assert.equal(stored.thinking, false);
});

test('a mode is applied, or refused when the flavor does not have it', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  const config = (params) => hub.call(session.id, 'set-session-config', params);
  assert.match((await config({ permissionMode: 'yolo' })).error, /alpha has no permission mode yolo/);
  assert.deepEqual((await config({ permissionMode: 'plan' })).applied, { permissionMode: 'plan' });
  assert.deepEqual((await config({ modelMode: 'model_fast' })).applied, { modelMode: 'model_fast' });
  hub.postMessage(session.id, 'echo planned');
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['Not run in plan mode: echo planned', '(ready)']);
  assert.equal(hub.sessions.get(session.id).permissionMode, 'plan');
  await config({ permissionMode: 'bypassPermissions' });
  hub.postMessage(session.id, 'echo free');
  await hub.untilReady(session.id, 2);
  assert.ok(hub.transcript(session.id).includes('free\n'));
});

test('while the terminal is in control, messages of the web stay queued', async (t) => {
  const { hub, start } = await setUp(t);
  let shown = '';
  const { session } = await start({ local: true, autoApprove: true, echo: (text) => (shown += text) });
  const stored = hub.sessions.get(session.id);
  await hub.waitUntil(() => stored.mode === 'local', 'local mode');
  assert.equal(stored.agentState.controlledByUser, true);
  hub.postMessage(session.id, 'echo from the web');
  session.typeLine('echo from the terminal');
  await hub.untilReady(session.id, 1);
  assert.equal(shown, 'from the terminal\n');
  assert.equal(stored.messages[1].content.meta.sentFrom, 'cli');
  assert.ok(!hub.transcript(session.id).includes('from the web\n'));
  assert.deepEqual(await hub.call(session.id, 'switch', { to: 'remote' }), { success: true, mode: 'remote' });
  await hub.untilReady(session.id, 2);
  assert.ok(hub.transcript(session.id).includes('from the web\n'));
  await hub.waitUntil(() => stored.agentState.controlledByUser === false, 'the web in control');
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'running', 'the session to be running');
});

test('both the terminal and the web can switch control', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  const isLocal = () => stored.mode === 'local' && stored.agentState.controlledByUser && stored.metadata.lifecycleState === 'paused';
  const isRemote = () =>
    stored.mode === 'remote' && !stored.agentState.controlledByUser && stored.metadata.lifecycleState === 'initializing';
  assert.deepEqual(await hub.call(session.id, 'switch', { to: 'local' }), { success: true, mode: 'local' });
  await hub.waitUntil(isLocal, 'the terminal in control');
  session.typeLine('/remote');
  await hub.waitUntil(isRemote, 'the web in control');
  session.typeLine('/local');
  await hub.waitUntil(isLocal, 'the terminal in control again');
  assert.equal((await hub.call(session.id, 'switch', {})).mode, 'remote');
  await hub.waitUntil(isRemote, 'the web in control again');
  assert.match((await hub.call(session.id, 'switch', { to: 'mars' })).error, /"to" must be/);
});

test('killSession ends the session, and also the process if the process serves no machine', async (t) => {
  const { hub, log, start } = await setUp(t);
  const app = await start();
  assert.deepEqual(await hub.call(app.session.id, 'killSession'), { success: true });
  assert.equal(await app.ended, null);
  assert.equal(hub.sessions.get(app.session.id).active, false);
  assert.ok(log.infos.includes('The session was ended from the web.'));
});

test('a machine keeps running when its session ends, or when its session was deleted while the machine was disconnected', async (t) => {
  const { hub, log, start } = await setUp(t);
  const countLogged = (pattern) => log.infos.filter((text) => pattern.test(text)).length;
  const first = await start({ machine: true });
  await hub.archive(first.session.id);
  await first.session.ended;
  assert.equal(countLogged(/^The session was ended from the web\. The machine keeps running: .* Ctrl-C ends it\.$/), 1);
  assert.deepEqual(hub.registeredMethods(first.machine.id), ['spawnSession', 'checkPathExists', 'listDirectory', 'listBranches']);
  first.session.typeLine('echo late');
  assert.equal(countLogged(/no more commands are run/), 1);
  await first.stop();

  const second = await start({ machine: true });
  hub.sessions.delete(second.session.id);
  hub.cutConnections();
  await second.session.ended;
  assert.equal(countLogged(/^The (session does not exist|hub refused).* The machine keeps running/), 1);
  await hub.waitUntil(() => hub.registeredMethods(second.machine.id).length === 4, 'the machine to reconnect');
});
