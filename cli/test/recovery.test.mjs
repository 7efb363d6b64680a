/** The program as a process after a kill: what continues, and what ends. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SessionProcesses } from 'session-gateway-cli-kit/processes';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { eventually, nextTurn } from '../../packages/cli-kit/test/support/wait.mjs';
import { program } from '../src/program.mjs';
import { say, setUpProcess } from './support/process-setup.mjs';
import { SCRIPTED_AGENT, askToRun, setUp } from './support/setup.mjs';

test('a CLI that is killed while the agent writes long code loses at most the last part', async (t) => {
  const { hub, start } = await setUpProcess(t, 'claude-agent-acp');
  const { ids, child, exit } = await start('--agent', 'claude');
  const stored = hub.sessions.get(ids.session);
  const lines = Array.from({ length: 400 }, (_, index) => `let line${index} = ${'x'.repeat(60)};\n`);
  hub.postMessage(ids.session, JSON.stringify([{ say: 'Look:\n\n```js\n' }, ...lines.map((say) => ({ say })), { wait: 60_000 }]));
  const parts = () => hub.transcript(ids.session).filter((text) => text.includes('```js'));
  await hub.waitUntil(() => parts().length >= 2, 'two parts');
  await hub.waitUntil(() => stored.deltas?.some(({ text }) => text.includes(lines.at(-1))), 'the end of the live text');
  child.kill('SIGKILL');
  await exit;
  const kept = parts()
    .join('')
    .split('\n')
    .filter((line) => line.startsWith('let'))
    .map((line) => `${line}\n`);
  assert.deepEqual(kept, lines.slice(0, kept.length));
  const lost = lines.slice(kept.length).join('').length;
  assert.ok(lost < 10_000, `${lost} characters are lost`);
  for (const text of parts()) assert.match(text, /```js\n[^`]*```$/, 'each part is readable');
  await start('--agent', 'claude');
  await hub.untilReady(ids.session, 1);
  assert.match(hub.transcript(ids.session).at(-2), /restarted/);
});

test('an archived session is resumed with its agent', async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'gemini', 'qwen');
  const { ids } = await start('--agent', 'gemini');
  const { sessionId, error } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'qwen' });
  assert.ok(sessionId, error);
  const stored = hub.sessions.get(sessionId);
  const agentId = await hub.waitUntil(() => /^scripted/.test(stored.metadata.deltaSessionId) && stored.metadata.deltaSessionId);
  await hub.archive(sessionId);
  assert.deepEqual(await hub.resume(ids.machine, sessionId), { success: true, sessionId });
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'initializing', 'the session to start again');
  assert.deepEqual([stored.metadata.deltaSessionId, stored.metadata.agentName], [agentId, 'Qwen Code']);
  say(hub, sessionId, 'again');
  await hub.untilReady(sessionId, 1);
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'running', 'the session to run');
});

test('the agent ends with a killed bridge', async (t) => {
  const { hub, start } = await setUpProcess(t, 'opencode');
  const { ids, child, exit } = await start('--agent', 'opencode');
  const { epsilonSessionId } = hub.sessions.get(ids.session).metadata;
  const pid = Number(epsilonSessionId.replace('scripted-', ''));
  assert.equal(isRunning(pid), true);
  child.kill('SIGKILL');
  await exit;
  await eventually(() => !isRunning(pid), 'the agent to end');
});

/** Waits until the agent asks to run `ls`. Returns the id of the request. */
async function askForLs(hub, sid) {
  hub.postMessage(sid, JSON.stringify(askToRun('call-1', 'ls')));
  return hub.waitUntil(() => hub.pendingRequest(sid), 'a permission request');
}

test('a bridge that was killed in a turn reports the interruption after its restart, and continues with the next message', async (t) => {
  const { hub, start } = await setUpProcess(t, 'opencode');
  const first = await start('--agent', 'opencode');
  const sid = first.ids.session;
  const id = await askForLs(hub, sid);
  first.child.kill('SIGKILL');
  await first.exit;
  const again = await start('--agent', 'opencode');
  assert.equal(again.ids.session, sid);
  await hub.untilReady(sid, 1);
  const stored = hub.sessions.get(sid);
  await hub.waitUntil(() => stored.agentState.completedRequests[id], 'the request to be canceled');
  assert.deepEqual([stored.agentState.requests, stored.agentState.completedRequests[id].status], [{}, 'canceled']);
  assert.deepEqual(hub.transcript(sid), [
    '> ls',
    '! The bridge to the agent was restarted while this ran.',
    'The bridge to the agent was restarted during this turn. Its prompt is not sent again.',
    '(ready)',
  ]);
  say(hub, sid, 'back');
  await hub.untilReady(sid, 2);
  assert.equal(hub.transcript(sid).at(-2), 'back');
});

test('a bridge that was killed keeps the changes of its queue, and each message runs once', async (t) => {
  const { hub, start } = await setUpProcess(t, 'opencode');
  const first = await start('--agent', 'opencode');
  const sid = first.ids.session;
  const stored = hub.sessions.get(sid);
  await askForLs(hub, sid);
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((text) => say(hub, sid, text).seq);
  await hub.waitUntil(() => stored.agentState.queuedMessages?.length === 4, 'the queue');
  const call = (params) => hub.call(sid, 'queue', params);
  assert.deepEqual(await call({ action: 'edit', seq: b, text: JSON.stringify([{ say: 'edited' }]) }), { success: true });
  assert.deepEqual(await call({ action: 'cancel', seq: c }), { success: true });
  assert.deepEqual(await call({ action: 'order', seqs: [d, b, a] }), { success: true });
  first.child.kill('SIGKILL');
  await first.exit;
  const second = await start('--agent', 'opencode');
  await hub.untilReady(sid, 4);
  assert.deepEqual(
    hub.transcript(sid).filter((line) => ['a', 'b', 'c', 'd', 'edited'].includes(line)),
    ['d', 'edited', 'a'],
  );
  const canceled = hub.transcript(sid).filter((line) => line.startsWith('(message: Canceled, not run:'));
  assert.equal(canceled.length, 1);
  await hub.waitUntil(() => stored.agentState.queuedMessages.length === 0, 'the end of the queue');
  // Nothing is run again by the next process.
  second.child.kill('SIGKILL');
  await second.exit;
  await start('--agent', 'opencode');
  say(hub, sid, 'last');
  await hub.untilReady(sid, 5);
  assert.deepEqual(hub.transcript(sid).slice(-3), ['(ready)', 'last', '(ready)']);
});

test('a spawned session that is killed ends at the hub, and is resumed', async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'opencode');
  const { ids } = await start('--agent', 'opencode');
  const { sessionId } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'opencode' });
  const stored = hub.sessions.get(sessionId);
  await hub.waitUntil(() => stored.active && stored.metadata.epsilonSessionId, 'the session to be active');
  process.kill(stored.metadata.hostPid, 'SIGKILL');
  await hub.waitUntil(() => !stored.active, 'the end of the session');
  assert.deepEqual(await hub.resume(ids.machine, sessionId), { success: true, sessionId });
  say(hub, sessionId, 'back');
  await hub.untilReady(sessionId, 1);
  assert.deepEqual(hub.transcript(sessionId), ['back', '(ready)']);
});

test('a machine that sleeps during a turn continues when it wakes', async (t) => {
  const { hub, start } = await setUpProcess(t, 'opencode');
  const { ids, child } = await start('--agent', 'opencode');
  const sid = ids.session;
  const agentGroup = -Number(hub.sessions.get(sid).metadata.epsilonSessionId.replace('scripted-', ''));
  const id = await askForLs(hub, sid);
  for (const pid of [agentGroup, child.pid]) process.kill(pid, 'SIGSTOP');
  hub.cutConnections();
  await hub.waitUntil(() => hub.registeredMethods(sid).length === 0, 'the connection to be lost');
  say(hub, sid, 'sent while it sleeps');
  for (const pid of [agentGroup, child.pid]) process.kill(pid, 'SIGCONT');
  await hub.waitUntil(() => hub.registeredMethods(sid).includes('permission'), 'the session to be back');
  assert.deepEqual(await hub.call(sid, 'permission', { id, approved: true }), { success: true });
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['> ls', 'ran ls', '(ready)', 'sent while it sleeps', '(ready)']);
});

test('on a slow computer, a session that is open at the hub at the time limit continues to start', async (t) => {
  const { hub, dir } = await setUpProcess(t);
  const base = path.dirname(dir);
  const go = path.join(base, 'go');
  const infos = [];
  const log = { info: (line) => infos.push(line), warn() {} };
  const processes = new SessionProcesses({ program, token: TOKEN, home: path.join(base, 'home'), log });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const slowAgent = [
    '--',
    '/bin/sh',
    '-c',
    `until [ -e '${go}' ]; do sleep 0.05; done; SCRIPT_HOME='${base}' exec '${process.execPath}' '${SCRIPTED_AGENT}'`,
  ];
  const args = [`--dir=${dir}`, `--hub=${hub.url}`, '--no-machine', ...slowAgent];
  const started = processes.start(args, { readyTimeoutMs: 25_000, canServeLater: true });
  t.after(() => processes.end());
  const opened = () => [...hub.sessions.keys()][0];
  while (opened() === undefined || !processes.find(opened())) await nextTurn();
  t.mock.timers.tick(25_000);
  t.mock.timers.reset();
  assert.deepEqual(await started, { success: true, sessionId: opened() });
  writeFileSync(go, '');
  await eventually(() => infos.length === 2, 'the session');
  assert.equal(hub.sessions.get(opened()).active, true);
  assert.deepEqual(
    infos.map((line) => line.replace(/\d+\)/, 'N)')),
    ['is still starting', 'started'].map((state) => `session ${opened()} ${state} (process N)`),
  );
});

test('a session that does not start in time leaves neither its agent nor an empty session behind', async (t) => {
  const { hub, dir } = await setUpProcess(t);
  const base = path.dirname(dir);
  const file = path.join(base, 'pid');
  const processes = new SessionProcesses({ program, token: TOKEN, home: path.join(base, 'home'), log: { info() {}, warn() {} } });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const silentAgent = ['--', '/bin/sh', '-c', `echo $$ > '${file}.new'; mv '${file}.new' '${file}'; exec sleep 600`];
  const started = processes.start([`--dir=${dir}`, `--hub=${hub.url}`, '--no-machine', ...silentAgent], { readyTimeoutMs: 25_000 });
  while (!existsSync(file)) await nextTurn();
  assert.equal(hub.sessions.size, 1);
  t.mock.timers.tick(25_000);
  t.mock.timers.reset();
  const pid = Number(readFileSync(file, 'utf8'));
  t.after(() => isRunning(pid) && process.kill(pid, 'SIGKILL'));
  assert.deepEqual(await started, { success: false, error: 'The new session did not start within 25 s.' });
  await eventually(() => !isRunning(pid), 'the agent to end');
  await eventually(() => processes.size === 0, 'the bridge to end');
  assert.equal(hub.sessions.size, 0);
});

const onLinux = { skip: process.platform !== 'linux' && 'the variables of a process are unknown' };
test('a command of an agent that was killed ends, too, although it has a process group of its own', onLinux, async (t) => {
  const { hub, prompt, scriptHome, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ detach: 600 }, { until: 'never' }]);
  const file = path.join(scriptHome, 'detached');
  await eventually(() => existsSync(file), 'the command');
  const command = Number(readFileSync(file, 'utf8'));
  assert.ok(isRunning(command));
  const { state } = /** @type {import('../src/agent.mjs').AcpAgent} */ (session.agent);
  process.kill(Number(state.agentId.replace('scripted-', '')), 'SIGKILL');
  await hub.untilReady(session.id, 1);
  await eventually(() => !isRunning(command), 'the end of the command');
});
