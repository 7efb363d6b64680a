/** What a machine does for `spawnSession`: sessions as processes of their own, in worktrees, and earlier ones again. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Spawner } from '../src/spawn.mjs';
import { openWorktree } from '../src/worktree.mjs';
import { agent, hubAndFolders } from './support/program.mjs';
import { repository } from './support/repository.mjs';

async function running(t) {
  const world = await hubAndFolders(t);
  const started = await agent(t, world, ['--allow-dir', path.join(world.base, 'allowed')]);
  const { hub } = world;
  const { machine } = started.ids;
  const spawn = (params) => hub.call(machine, 'spawnSession', params);
  /** Runs a command in a session that does not ask, and answers what is said from then on. */
  const run = async (sid, command) => {
    const before = hub.heard(sid);
    hub.say(sid, command);
    await hub.ready(sid, before.filter((one) => one === '(ready)').length + 1);
    return hub.heard(sid).slice(before.length);
  };
  return { ...world, ...started, machine, spawn, run, resume: (sid) => hub.resume(machine, sid) };
}

test('sessions are spawned in allowed directories, and end with the process that started them', async (t) => {
  const { hub, child, exit, base, dir, ids, spawn, run } = await running(t);
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
  assert.equal((await spawn({ directory: path.join(base, 'allowed') })).success, true);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(session.active, false);
  assert.equal(hub.sessions.get(again.sessionId).active, false);
});

test('what cannot be spawned or resumed is refused with the reason', async (t) => {
  const { hub, base, dir, ids, spawn } = await running(t);
  const own = hub.sessions.get(ids.session).metadata.alphaSessionId;
  for (const [params, reason] of [
    [{ directory: base }, /outside the directories/],
    [{ directory: '/' }, /outside the directories/],
    [{ directory: path.join(dir, 'missing') }, /There is no directory/],
    [{}, /"directory" is missing/],
    [{ directory: dir, agent: 'not a word' }, /"agent"/],
    [{ directory: dir, model: 5 }, /"model"/],
    [{ directory: dir, sessionType: 'other' }, /"simple" and "worktree" only/],
    [{ directory: dir, sessionType: 'worktree', worktreeName: 'x' }, /^Not a git repository/],
    [{ directory: dir, sessionType: 'worktree' }, /"worktreeName" is missing/],
    [{ directory: dir, resumeSessionId: own }, /"sessionId" must name/],
    [{ directory: dir, sessionId: ids.session }, /"resumeSessionId" must be/],
    [{ directory: dir, sessionId: '--help', resumeSessionId: '' }, /"resumeSessionId" must be/],
    [{ directory: dir, sessionId: 'unknown', resumeSessionId: own }, /^The hub answered 404/],
  ]) {
    const refused = await spawn(params);
    assert.equal(refused.success, false);
    assert.match(refused.error, reason);
  }
});

test('a session in a worktree has a checkout and a branch of its own', async (t) => {
  const { hub, dir, ids, spawn, run } = await running(t);
  const { git, write } = repository(t, dir);
  write('a.txt', 'one\n');
  git('add', '.');
  git('commit', '-m', 'first');
  const { sessionId, error } = await spawn({ directory: dir, yolo: true, sessionType: 'worktree', worktreeName: 'fix' });
  assert.ok(sessionId, error);
  const worktreePath = path.join(dir, '.worktrees', 'fix');
  assert.match(git('worktree', 'list'), new RegExp(`^${worktreePath} .*\\[fix\\]$`, 'm'));
  const { metadata } = hub.sessions.get(sessionId);
  assert.equal(metadata.path, worktreePath);
  const { createdAt, ...worktree } = metadata.worktree;
  assert.deepEqual(worktree, { basePath: dir, branch: 'fix', name: 'fix', worktreePath });
  assert.equal(typeof createdAt, 'number');

  await run(sessionId, 'echo two > a.txt');
  const changed = async (sid, cwd) => (await hub.call(sid, 'gitStatus', { cwd })).files.map((file) => file.path);
  assert.deepEqual(await changed(sessionId, worktreePath), ['a.txt']);
  assert.deepEqual(await changed(ids.session, dir), []);
  assert.match((await hub.call(sessionId, 'gitDiffFile', { cwd: worktreePath, filePath: 'a.txt' })).diff, /^\+two$/m);

  // A second session of that name works beside the first.
  const second = await spawn({ directory: dir, sessionType: 'worktree', worktreeName: 'fix' });
  assert.notEqual(second.sessionId, sessionId);
  assert.equal(hub.sessions.get(second.sessionId).metadata.worktree.createdAt, createdAt);
});

test('a worktree that takes long to make is there when it is asked for again', async (t) => {
  const { dir, git, write } = repository(t);
  const gate = path.join(dir, '.git', 'gate');
  write('.gitattributes', '*.txt filter=slow\n');
  write('a.txt', 'a\n');
  git('add', '.');
  git('commit', '-m', 'first');
  git('config', 'filter.slow.smudge', `while [ ! -e ${gate} ]; do sleep 0.05; done; cat`);
  const spawner = new Spawner({ directories: [dir], hub: '', token: '', home: '', machineId: 'm', log: {}, readyMs: 1 });
  const spawned = spawner.spawn({ directory: dir, sessionType: 'worktree', worktreeName: 'slow' });
  await assert.rejects(spawned, /^Error: The worktree is still being made\. Try again in a minute\.$/);
  writeFileSync(gate, '');
  const worktree = await openWorktree({ directory: dir, directories: [dir], name: 'slow' });
  assert.ok(existsSync(path.join(worktree, 'a.txt')));
});

test('a session that was archived is resumed where it was: the same session, its shell as it was left', async (t) => {
  const { hub, dir, spawn, run, resume } = await running(t);
  const { git, write } = repository(t, dir);
  write('a.txt', 'one\n');
  git('add', '.');
  git('commit', '-m', 'first');
  const spawned = await spawn({ directory: dir, yolo: true, sessionType: 'worktree', worktreeName: 'w' });
  const { sessionId } = spawned;
  assert.ok(sessionId, spawned.error);
  await run(sessionId, 'mkdir deep; cd deep; export COLOR=blue');
  await hub.archive(sessionId);
  const stored = hub.sessions.get(sessionId);
  const [pid, agentId] = [stored.metadata.hostPid, stored.metadata.alphaSessionId];
  const before = hub.heard(sessionId);
  // While its process is still on its way out as well as after.
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  await hub.until(() => stored.metadata.lifecycleState === 'running', 'the session to run again');
  assert.notEqual(stored.metadata.hostPid, pid);
  assert.equal(stored.metadata.alphaSessionId, agentId);
  assert.equal(stored.metadata.archivedBy, undefined);
  assert.equal(stored.metadata.worktree.name, 'w');
  const place = path.join(dir, '.worktrees', 'w', 'deep');
  assert.deepEqual(hub.heard(sessionId), [...before, `Resumed: this shell goes on in ${place}, with COLOR as set before.`]);
  assert.deepEqual((await run(sessionId, 'pwd; echo $COLOR')).slice(1, 2), [`${place}\nblue\n`]);

  // It is served already: that is what was asked for.
  const served = stored.metadata.hostPid;
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  assert.equal(stored.metadata.hostPid, served);
});

test('a session whose process dies is ended at the hub at once, and the log says how it died', async (t) => {
  const { hub, dir, spawn, says, run, resume } = await running(t);
  const { sessionId } = await spawn({ directory: dir, yolo: true });
  const stored = hub.sessions.get(sessionId);
  const pid = stored.metadata.hostPid;
  assert.equal(stored.active, true);
  process.kill(pid, 'SIGKILL');
  await says(new RegExp(`session ${sessionId} died \\(process ${pid}\\) \\(SIGKILL\\)`));
  await hub.until(() => !stored.active, 'the session to be ended');
  assert.deepEqual(await resume(sessionId), { success: true, sessionId });
  assert.ok((await run(sessionId, 'echo again')).includes('again\n'));
});

test('sessions end with an agent that is killed; when it is back, they stay ended until they are resumed', async (t) => {
  const world = await running(t);
  const { hub, child, dir, machine, spawn, run } = world;
  const { sessionId } = await spawn({ directory: dir, yolo: true });
  await run(sessionId, 'export COLOR=blue');
  const stored = hub.sessions.get(sessionId);
  child.kill('SIGKILL');
  await hub.until(() => !stored.active && hub.registered(sessionId).length === 0, 'the spawned session to end');

  const back = await agent(t, world);
  assert.equal(back.ids.machine, machine);
  assert.equal(stored.active, false);
  assert.deepEqual(await world.resume(sessionId), { success: true, sessionId });
  assert.ok((await run(sessionId, 'echo $COLOR')).includes('blue\n'));
});

test('two who resume at once get the one process that was started', async (t) => {
  const { hub, dir, spawn, resume } = await running(t);
  const { sessionId } = await spawn({ directory: dir });
  await hub.archive(sessionId);
  const answers = await Promise.all([resume(sessionId), resume(sessionId)]);
  assert.deepEqual(answers, Array(2).fill({ success: true, sessionId }));
  await hub.until(() => hub.sessions.get(sessionId).metadata.lifecycleState === 'running', 'the session to run again');
  assert.equal(hub.heard(sessionId).filter((one) => one.startsWith('Resumed')).length, 1);
});

test('an id that the agent never gave is no past to go on with', async (t) => {
  const { hub, dir, spawn } = await running(t);
  const { sessionId } = await spawn({ directory: dir });
  await hub.archive(sessionId);
  const refused = await spawn({ directory: dir, sessionId, resumeSessionId: 'made-up' });
  assert.deepEqual(refused, {
    success: false,
    error: `This machine keeps nothing of session ${sessionId} under the agent's id made-up.`,
  });
  assert.equal(hub.sessions.get(sessionId).active, false);
});

test('a machine outlives its own session, and can take it up again', async (t) => {
  const { hub, child, exit, collected, dir, ids, machine, spawn, says, resume } = await running(t);
  const other = await spawn({ directory: dir });
  await hub.archive(ids.session);
  await says(/The session was ended from the web\. This machine stays/);
  assert.equal((await hub.call(machine, 'checkPathExists', { paths: [dir] }))[dir], true);
  assert.equal(hub.sessions.get(other.sessionId).active, true);
  assert.deepEqual(await resume(ids.session), { success: true, sessionId: ids.session });
  await says(new RegExp(`session ${ids.session} started \\(process \\d+\\)`));
  const stored = hub.sessions.get(ids.session);
  await hub.until(() => stored.active && stored.metadata.startedBy === 'runner', 'the session to be back');
  await hub.archive(ids.session);
  await says(new RegExp(`session ${ids.session} ended`));
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  assert.doesNotMatch(collected.err, /warning/);
});

test('uploads of a session are there after it was resumed', async (t) => {
  const { hub, dir, spawn, run, resume } = await running(t);
  mkdirSync(path.join(dir, 'x'));
  const { sessionId } = await spawn({ directory: path.join(dir, 'x'), yolo: true });
  const upload = await hub.call(sessionId, 'uploadFile', { filename: 'a.txt', content: btoa('kept'), mimeType: 'text/plain' });
  await hub.archive(sessionId);
  await resume(sessionId);
  assert.ok(existsSync(upload.path));
  assert.deepEqual((await run(sessionId, `cat ${upload.path}`)).slice(1, 2), ['kept']);
});
