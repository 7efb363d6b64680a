/** `spawnSession`: new sessions, sessions in worktrees, and resumed sessions. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Spawner } from 'session-gateway-cli-kit/spawn';
import { openWorktree } from 'session-gateway-cli-kit/worktree';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { program } from '../src/program.mjs';
import { startAgent, hubAndFolders } from './support/program.mjs';
import { repository } from '../../../packages/cli-kit/test/support/repository.mjs';

/** Starts an agent with a machine, and returns functions that spawn, use and resume sessions on it. */
async function startMachine(t) {
  const fixture = await hubAndFolders(t);
  const started = await startAgent(t, fixture, ['--allow-dir', path.join(fixture.base, 'allowed')]);
  const { hub } = fixture;
  const { machine } = started.ids;
  const spawn = (params) => hub.call(machine, 'spawnSession', params);
  /** Runs a command in a session without permission requests, and returns the new lines of the transcript. */
  const run = async (sid, command) => {
    const before = hub.transcript(sid);
    hub.postMessage(sid, command);
    await hub.untilReady(sid, before.filter((line) => line === '(ready)').length + 1);
    return hub.transcript(sid).slice(before.length);
  };
  return { ...fixture, ...started, machine, spawn, run, resume: (sid) => hub.resume(machine, sid) };
}

test('sessions are spawned in allowed directories; when the machine ends, they end, and unused sessions are deleted', async (t) => {
  const { hub, child, exit, base, dir, ids, spawn, run } = await startMachine(t);
  const spawned = await spawn({ directory: path.join(dir, 'sub'), agent: 'beta', model: 'large', yolo: true });
  assert.equal(spawned.success, true, spawned.error);
  const session = hub.sessions.get(spawned.sessionId);
  assert.equal(session.metadata.path, path.join(dir, 'sub'));
  assert.equal(session.metadata.flavor, 'beta');
  assert.equal(session.metadata.startedBy, 'runner');
  assert.equal(session.metadata.machineId, ids.machine);
  assert.equal(session.metadata.worktree, undefined);
  assert.match(session.metadata.betaSessionId, /^[0-9a-f-]{36}$/);
  assert.equal(session.permissionMode, 'yolo');
  assert.ok((await run(spawned.sessionId, 'pwd')).includes(`${path.join(dir, 'sub')}\n`));
  const again = await spawn({ directory: dir, sessionType: 'simple' });
  assert.equal(again.success, true, again.error);
  assert.notEqual(again.sessionId, ids.session);
  const named = await spawn({ directory: path.join(base, 'allowed') });
  await hub.rename(named.sessionId, 'Keep me');
  assert.deepEqual(pluck([session, hub.sessions.get(again.sessionId)], 'metadata.lifecycleState'), ['running', 'initializing']);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(session.active, false);
  assert.deepEqual(
    new Set(hub.sessions.keys()),
    new Set([ids.session, spawned.sessionId, named.sessionId]),
    'the session of the command line is continued',
  );
});

test('invalid spawn and resume requests are refused with the reason', async (t) => {
  const { hub, base, dir, ids, spawn } = await startMachine(t);
  const own = hub.sessions.get(ids.session).metadata.alphaSessionId;
  /** @type {[Record<string, unknown>, RegExp][]} */
  const refusals = [
    [{ directory: base }, /outside the directories/],
    [{ directory: '/' }, /outside the directories/],
    // The answer is the same for existing and missing paths, so a client cannot find out which paths the machine has.
    [{ directory: '/etc/passwd' }, /^\/etc\/passwd is outside the directories this machine serves/],
    [{ directory: '/etc/none' }, /^\/etc\/none is outside the directories this machine serves/],
    [{ directory: path.join(base, 'none') }, /outside the directories/],
    [{ directory: path.join(dir, 'missing') }, /There is no directory/],
    [{}, /"directory" is missing/],
    [{ directory: dir, agent: 'not a word' }, /"agent"/],
    [{ directory: dir, model: 5 }, /"model"/],
    [{ directory: dir, sessionType: 'other' }, /"simple" or "worktree"/],
    [{ directory: dir, sessionType: 'worktree', worktreeName: 'x' }, /^Not a git repository/],
    [{ directory: dir, sessionType: 'worktree' }, /"worktreeName" is missing/],
    [{ directory: dir, branch: 'main' }, /"branch" needs the "sessionType" "worktree"/],
    [{ directory: dir, resumeSessionId: own }, /"sessionId" must be/],
    [{ directory: dir, sessionId: ids.session }, /"resumeSessionId" must be/],
    [{ directory: dir, sessionId: '--help', resumeSessionId: '' }, /"resumeSessionId" must be/],
    [{ directory: dir, sessionId: 'unknown', resumeSessionId: own }, /^The hub answered 404/],
  ];
  for (const [params, reason] of refusals) {
    const refused = await spawn(params);
    assert.equal(refused.success, false);
    assert.match(refused.error, reason);
  }
});

test('the folders and branches of a machine can be listed, and a worktree starts from a branch', async (t) => {
  const { hub, base, dir, machine, spawn } = await startMachine(t);
  const { git, commit } = repository(t, dir);
  commit({ 'a.txt': 'one\n' });
  git('branch', 'before');
  commit({ 'b.txt': 'two\n' });
  const { roots } = await hub.call(machine, 'listDirectory', {});
  assert.deepEqual(roots, [dir, path.join(base, 'allowed')]);
  const { entries } = await hub.call(machine, 'listDirectory', { path: dir });
  assert.ok(entries.some(({ name }) => name === 'sub'));
  const refused = await hub.call(machine, 'listDirectory', { path: base });
  assert.deepEqual([refused.success, refused.error], [false, `${base} is outside the directories this machine serves.`]);
  const { current, branches } = await hub.call(machine, 'listBranches', { path: path.join(dir, 'sub') });
  assert.deepEqual([current, branches.sort()], ['main', ['before', 'main']]);
  const spawned = await spawn({ directory: dir, sessionType: 'worktree', worktreeName: 'fix', branch: 'before' });
  assert.equal(spawned.success, true, spawned.error);
  const worktree = path.join(dir, '.worktrees', 'fix');
  assert.deepEqual([existsSync(path.join(worktree, 'a.txt')), existsSync(path.join(worktree, 'b.txt'))], [true, false]);
});

test('the creation of a worktree continues after the timeout of its request', async (t) => {
  const { dir, git, commit } = repository(t);
  const gate = path.join(dir, '.git', 'gate');
  commit({ '.gitattributes': '*.txt filter=slow\n', 'a.txt': 'a\n' });
  // Of the filters, only the user's own ones run.
  process.env.GIT_CONFIG_GLOBAL = path.join(dir, '.git', 'global');
  t.after(() => delete process.env.GIT_CONFIG_GLOBAL);
  git('config', '--file', process.env.GIT_CONFIG_GLOBAL, 'filter.slow.smudge', `while [ ! -e ${gate} ]; do sleep 0.05; done; cat`);
  const spawner = new Spawner(
    /** @type {any} */ ({ program, directories: [dir], hub: '', token: '', home: '', machineId: 'm', log: {}, readyTimeoutMs: 1 }),
  );
  const spawned = spawner.spawn({ directory: dir, sessionType: 'worktree', worktreeName: 'slow' });
  await assert.rejects(spawned, /^Error: Creating the worktree takes longer than usual\. Try again in a minute\.$/);
  writeFileSync(gate, '');
  const worktree = await openWorktree({ directory: dir, directories: [dir], name: 'slow' });
  assert.ok(existsSync(path.join(worktree, 'a.txt')));
});

test('an archived session is resumed with its id, its metadata and its shell state', async (t) => {
  const { hub, dir, spawn, run, resume } = await startMachine(t);
  const { commit } = repository(t, dir);
  commit({ 'a.txt': 'one\n' });
  const spawned = await spawn({ directory: dir, yolo: true, sessionType: 'worktree', worktreeName: 'w' });
  const { sessionId } = spawned;
  assert.ok(sessionId, spawned.error);
  await run(sessionId, 'mkdir deep; cd deep; export COLOR=blue');
  await hub.archive(sessionId);
  const stored = hub.sessions.get(sessionId);
  const [pid, agentId] = [stored.metadata.hostPid, stored.metadata.alphaSessionId];
  const before = hub.transcript(sessionId);
  // The old process may still be ending.
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'running', 'the session to run again');
  assert.notEqual(stored.metadata.hostPid, pid);
  assert.equal(stored.metadata.alphaSessionId, agentId);
  assert.equal(stored.metadata.archivedBy, undefined);
  assert.equal(stored.metadata.worktree.name, 'w');
  const place = path.join(dir, '.worktrees', 'w', 'deep');
  assert.deepEqual(hub.transcript(sessionId), [...before, `Resumed: the shell continues in ${place}, with COLOR as set before.`]);
  assert.deepEqual((await run(sessionId, 'pwd; echo $COLOR')).slice(1, 2), [`${place}\nblue\n`]);

  // Resuming a running session starts no process.
  const runningPid = stored.metadata.hostPid;
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  assert.equal(stored.metadata.hostPid, runningPid);
});

test('a session whose process crashes is ended at the hub at once, and the signal is logged', async (t) => {
  const { hub, dir, spawn, untilLogged, run, resume } = await startMachine(t);
  const { sessionId } = await spawn({ directory: dir, yolo: true });
  const stored = hub.sessions.get(sessionId);
  const pid = stored.metadata.hostPid;
  assert.equal(stored.active, true);
  process.kill(pid, 'SIGKILL');
  await untilLogged(new RegExp(`session ${sessionId} crashed \\(process ${pid}\\) \\(SIGKILL\\)`));
  await hub.waitUntil(() => !stored.active, 'the session to be ended');
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  assert.ok((await run(sessionId, 'echo again')).includes('again\n'));
});

test('when the machine is killed, its spawned sessions end, and a restart of the machine does not resume them', async (t) => {
  const fixture = await startMachine(t);
  const { hub, child, dir, machine, spawn, run } = fixture;
  const { sessionId } = await spawn({ directory: dir, yolo: true });
  await run(sessionId, 'export COLOR=blue');
  const stored = hub.sessions.get(sessionId);
  child.kill('SIGKILL');
  await hub.waitUntil(() => !stored.active && hub.registeredMethods(sessionId).length === 0, 'the spawned session to end');

  const back = await startAgent(t, fixture);
  assert.equal(back.ids.machine, machine);
  assert.equal(stored.active, false);
  assert.deepEqual(await fixture.resume(sessionId), { success: true, sessionId });
  assert.ok((await run(sessionId, 'echo $COLOR')).includes('blue\n'));
});

test('two concurrent resumes start one process', async (t) => {
  const { hub, dir, spawn, resume } = await startMachine(t);
  const { sessionId } = await spawn({ directory: dir });
  await hub.archive(sessionId);
  const answers = await Promise.all([resume(sessionId), resume(sessionId)]);
  assert.deepEqual(answers, Array(2).fill({ success: true, sessionId }));
  await hub.waitUntil(() => hub.sessions.get(sessionId).metadata.lifecycleState === 'running', 'the session to run again');
  assert.equal(hub.transcript(sessionId).filter((line) => line.startsWith('Resumed')).length, 1);
});

test('a resume with an unknown agent id is refused', async (t) => {
  const { hub, dir, spawn } = await startMachine(t);
  const { sessionId } = await spawn({ directory: dir });
  await hub.archive(sessionId);
  const refused = await spawn({ directory: dir, sessionId, resumeSessionId: 'made-up' });
  assert.deepEqual(refused, { success: false, error: `This machine has no state of session ${sessionId} with the agent's id made-up.` });
  assert.equal(hub.sessions.get(sessionId).active, false);
});

test('a resumed session keeps its uploads', async (t) => {
  const { hub, dir, spawn, run, resume } = await startMachine(t);
  mkdirSync(path.join(dir, 'x'));
  const { sessionId } = await spawn({ directory: path.join(dir, 'x'), yolo: true });
  const upload = await hub.call(sessionId, 'uploadFile', { filename: 'a.txt', content: btoa('content'), mimeType: 'text/plain' });
  await hub.archive(sessionId);
  await resume(sessionId);
  assert.ok(existsSync(upload.path));
  assert.deepEqual((await run(sessionId, `cat ${upload.path}`)).slice(1, 2), ['content']);
});
