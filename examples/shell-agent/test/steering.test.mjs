/** How a session is steered from the web: permissions, modes, control, abort, and its end. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { approve, place } from './support/place.mjs';

test('a denied command is not run, and nothing is asked any more after approval for the session', async (t) => {
  const { hub, dir, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'touch made');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'denied', reason: 'Not here' });
  await hub.ready(session.id, 1);
  assert.deepEqual(hub.heard(session.id), ['> touch made', '! Denied.\nReason: Not here', '(ready)']);
  assert.equal(existsSync(path.join(dir, 'made')), false);
  hub.say(session.id, 'touch one');
  await approve(hub, session.id, { decision: 'approved_for_session' });
  hub.say(session.id, 'touch two');
  await hub.ready(session.id, 3);
  assert.ok(existsSync(path.join(dir, 'one')) && existsSync(path.join(dir, 'two')));
});

test('messages wait their turn, and abort ends the running one and drops the rest', async (t) => {
  const { hub, dir, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  hub.say(session.id, 'echo first; sleep 600');
  hub.say(session.id, 'touch second');
  await hub.until(() => hub.heard(session.id).includes('first\n'), 'the first output');
  const answer = await hub.call(session.id, 'abort', { reason: 'enough' });
  assert.deepEqual(answer, { success: true, aborted: true, dropped: 1 });
  await hub.until(
    () => hub.heard(session.id).at(-1) === 'Dropped, not run:\ntouch second',
    'the note about what was dropped',
  );
  assert.deepEqual(hub.heard(session.id), [
    '> echo first; sleep 600',
    '! first\n',
    'Aborted. Ended by SIGTERM.',
    '(ready)',
    'Dropped, not run:\ntouch second',
  ]);
  assert.equal(existsSync(path.join(dir, 'second')), false);
  hub.say(session.id, 'echo again');
  await hub.ready(session.id, 2);
  assert.ok(hub.heard(session.id).includes('again\n'));
});

test('an answer with the decision to abort drops what waits behind the request', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'echo one');
  hub.say(session.id, 'echo two');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  await hub.call(session.id, 'permission', { id, approved: false, decision: 'abort' });
  await hub.until(() => hub.heard(session.id).at(-1)?.startsWith('Dropped'), 'the note about what was dropped');
  assert.deepEqual(hub.heard(session.id), ['> echo one', '! Denied and aborted.', '(ready)', 'Dropped, not run:\necho two']);
  assert.equal(hub.pending(session.id), undefined);
});

test('an abort reaches what the command has started', async (t) => {
  const { hub, dir, start } = await place(t);
  const { session } = await start({ autoApprove: true });
  hub.say(session.id, `(trap 'touch told; exit' TERM; echo up; while :; do sleep 0.1; done) & wait`);
  await hub.until(() => hub.heard(session.id).includes('up\n'), 'the child to be up');
  assert.equal((await hub.abort(session.id)).aborted, true);
  assert.ok(existsSync(path.join(dir, 'told')));
});

test('after an abort the agent reports itself at once, not with its next sign of life', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start({ aliveMs: 2 ** 30 });
  const stored = hub.sessions.get(session.id);
  assert.deepEqual(await hub.abort(session.id), { success: true, aborted: false, dropped: 0 });
  assert.equal(stored.active, false);
  await hub.until(() => stored.active, 'the agent to be back');
  hub.say(session.id, 'sleep 600');
  await approve(hub, session.id);
  await hub.until(() => stored.thinking, 'the agent to think');
  assert.equal((await hub.abort(session.id)).aborted, true);
  await hub.until(() => stored.active, 'the agent to be back again');
  assert.equal(stored.thinking, false);
});

test('modes are applied, or refused when the agent kind does not have them', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  const config = (params) => hub.call(session.id, 'set-session-config', params);
  assert.match((await config({ permissionMode: 'yolo' })).error, /alpha has no permission mode yolo/);
  assert.deepEqual((await config({ permissionMode: 'plan' })).applied, { permissionMode: 'plan' });
  assert.deepEqual((await config({ modelMode: 'model_fast' })).applied, { modelMode: 'model_fast' });
  hub.say(session.id, 'echo planned');
  await hub.ready(session.id, 1);
  assert.deepEqual(hub.heard(session.id), ['Not run in plan mode: echo planned', '(ready)']);
  assert.equal(hub.sessions.get(session.id).permissionMode, 'plan');
  await config({ permissionMode: 'bypassPermissions' });
  hub.say(session.id, 'echo free');
  await hub.ready(session.id, 2);
  assert.ok(hub.heard(session.id).includes('free\n'));
});

test('while the terminal is in control messages of the web wait for the switch', async (t) => {
  const { hub, start } = await place(t);
  let shown = '';
  const { session } = await start({ local: true, autoApprove: true, echo: (text) => (shown += text) });
  const stored = hub.sessions.get(session.id);
  await hub.until(() => stored.mode === 'local', 'local mode');
  assert.equal(stored.agentState.controlledByUser, true);
  hub.say(session.id, 'echo from the web');
  session.type('echo from the terminal');
  await hub.ready(session.id, 1);
  assert.equal(shown, 'from the terminal\n');
  assert.equal(stored.messages[1].content.meta.sentFrom, 'cli');
  assert.ok(!hub.heard(session.id).includes('from the web\n'));
  assert.deepEqual(await hub.call(session.id, 'switch', { to: 'remote' }), { success: true, mode: 'remote' });
  await hub.ready(session.id, 2);
  assert.ok(hub.heard(session.id).includes('from the web\n'));
  await hub.until(() => stored.agentState.controlledByUser === false, 'the web in control');
  await hub.until(() => stored.metadata.lifecycleState === 'running', 'the session to go on');
});

test('control goes to the terminal and back from either side', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  const isLocal = () =>
    stored.mode === 'local' && stored.agentState.controlledByUser && stored.metadata.lifecycleState === 'paused';
  const isRemote = () =>
    stored.mode === 'remote' && !stored.agentState.controlledByUser && stored.metadata.lifecycleState === 'running';
  assert.deepEqual(await hub.call(session.id, 'switch', { to: 'local' }), { success: true, mode: 'local' });
  await hub.until(isLocal, 'the terminal in control');
  session.type('/remote');
  await hub.until(isRemote, 'the web in control');
  session.type('/local');
  await hub.until(isLocal, 'the terminal in control again');
  assert.equal((await hub.call(session.id, 'switch', {})).mode, 'remote');
  await hub.until(isRemote, 'the web in control again');
  assert.match((await hub.call(session.id, 'switch', { to: 'mars' })).error, /"to" must be/);
});

test('a request that the hub canceled is put again on the next connection', async (t) => {
  const { hub, start } = await place(t);
  const { session } = await start();
  hub.say(session.id, 'echo patient');
  const id = await hub.until(() => hub.pending(session.id), 'a permission request');
  hub.changeState(session.id, ({ requests }) => ({
    requests: {},
    completedRequests: { [id]: { ...requests[id], status: 'canceled' } },
  }));
  assert.notEqual(await hub.until(() => hub.pending(session.id), 'a new request'), id);
  await approve(hub, session.id);
  await hub.ready(session.id, 1);
  assert.ok(hub.heard(session.id).includes('patient\n'));
});

test('killSession ends the session, and a process that has nothing else with it', async (t) => {
  const { hub, log, start } = await place(t);
  const app = await start();
  assert.deepEqual(await hub.call(app.session.id, 'killSession'), { success: true });
  assert.equal(await app.ended, null);
  assert.equal(hub.sessions.get(app.session.id).active, false);
  assert.ok(log.infos.includes('The session was ended from the web.'));
});

test('a machine stays when its own session ends, or is deleted while it was away', async (t) => {
  const { hub, log, start } = await place(t);
  const said = (pattern) => log.infos.filter((text) => pattern.test(text)).length;
  const first = await start({ machine: true });
  await hub.archive(first.session.id);
  await first.session.gone;
  assert.equal(said(/^The session was ended from the web\. This machine stays: .* Ctrl-C ends it\.$/), 1);
  assert.deepEqual(hub.registered(first.machine.id), ['spawnSession', 'checkPathExists']);
  first.session.type('echo late');
  assert.equal(said(/nothing is run any more/), 1);
  await first.stop();

  const second = await start({ machine: true });
  hub.sessions.delete(second.session.id);
  hub.cut();
  await second.session.gone;
  assert.equal(said(/^The (session is gone|hub says).* This machine stays/), 1);
  await hub.until(() => hub.registered(second.machine.id).length === 2, 'the machine to be back');
});

test('a request that is open when its session is archived is asked again by nobody', async (t) => {
  const { hub, start } = await place(t);
  const app = await start();
  hub.say(app.session.id, 'echo never');
  const id = await hub.until(() => hub.pending(app.session.id), 'a permission request');
  await hub.archive(app.session.id);
  await app.ended;
  const { requests, completedRequests } = hub.sessions.get(app.session.id).agentState;
  assert.deepEqual([requests, Object.keys(completedRequests)], [{}, [id]]);
});
