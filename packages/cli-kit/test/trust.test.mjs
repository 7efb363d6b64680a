import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { RpcServer } from '../src/rpc.mjs';
import { Spawner } from '../src/spawn.mjs';
import { StateStore } from '../src/state.mjs';
import { TrustedFolders } from '../src/trust.mjs';
import { openWorktree } from '../src/worktree.mjs';
import { repository, tempDir } from './support/repository.mjs';
import { quietLog } from './support/wait.mjs';

const LIST = 'trusted-folders.jsonl';

const folder = (...names) => {
  const created = path.join(...names);
  mkdirSync(created, { recursive: true });
  return created;
};

/** A repository with a commit that has the file `sub/a.txt`. */
function committedRepository(t) {
  const created = repository(t);
  created.commit({ 'sub/a.txt': 'a\n' });
  return created;
}

test('a folder outside of a repository is trusted alone', (t) => {
  const base = tempDir(t);
  const trusted = new TrustedFolders(tempDir(t));
  trusted.add(folder(base, 'a'));
  const tested = [folder(base, 'a'), folder(base, 'a', 'sub'), base, folder(base, 'ab')];
  assert.deepEqual(
    tested.map((directory) => trusted.includes(directory)),
    [true, false, false, false],
  );
});

test('a trusted folder of a repository includes its subfolders, but no other repository in it', (t) => {
  const { dir } = repository(t);
  const trusted = new TrustedFolders(tempDir(t));
  trusted.add(folder(dir, 'sub'));
  repository(t, folder(dir, 'sub', 'other'));
  const tested = [['sub'], ['sub', 'deep'], [], ['subject'], ['sub', 'other'], ['sub', 'other', 'deep']];
  assert.deepEqual(
    tested.map((names) => trusted.includes(folder(dir, ...names))),
    [true, true, false, false, false, false],
  );
});

test('the worktrees of a repository share the trust of its folders, in both directions', async (t) => {
  const { dir, git } = committedRepository(t);
  const worktree = await openWorktree({ directory: dir, directories: [dir], name: 'inside' });
  const outside = path.join(tempDir(t), 'outside');
  git('worktree', 'add', outside);
  const checkouts = [dir, worktree, outside];
  const trusted = new TrustedFolders(tempDir(t));
  const trustOf = (...names) => checkouts.map((checkout) => trusted.includes(path.join(checkout, ...names)));
  trusted.add(path.join(outside, 'sub'));
  assert.deepEqual(
    [trustOf('sub'), trustOf()],
    [
      [true, true, true],
      [false, false, false],
    ],
  );
  trusted.add(worktree);
  assert.deepEqual(trustOf(), [true, true, true]);
});

test('a folder cannot claim to be a worktree of a trusted repository', async (t) => {
  const { dir, git } = committedRepository(t);
  git('worktree', 'add', path.join(tempDir(t), 'real'));
  const trusted = new TrustedFolders(tempDir(t));
  trusted.add(dir);
  const claim = (text) => {
    const directory = tempDir(t);
    if (text !== null) writeFileSync(path.join(directory, '.git'), text);
    return directory;
  };
  assert.equal(trusted.includes(claim(`gitdir: ${dir}/.git/worktrees/real\n`)), false, 'the worktree of another folder');
  assert.equal(trusted.includes(claim(`gitdir: ${dir}/.git\n`)), false);
  const withOwnFolder = claim(null);
  const gitDir = folder(withOwnFolder, 'fake', 'worktrees', 'x');
  writeFileSync(path.join(gitDir, 'gitdir'), `${withOwnFolder}/.git\n`);
  writeFileSync(path.join(gitDir, 'commondir'), `${dir}/.git\n`);
  writeFileSync(path.join(withOwnFolder, '.git'), `gitdir: ${gitDir}\n`);
  assert.equal(trusted.includes(withOwnFolder), false, 'its own git folder names the repository as the common one');
  const configured = folder(tempDir(t), 'configured');
  repository(t, configured).git('config', 'core.worktree', dir);
  assert.equal(trusted.includes(configured), false, 'its configuration names the repository as its checkout');
});

test('the list is a file of the user, whose lines can be deleted, and whose broken lines are ignored', (t) => {
  const home = tempDir(t);
  const [a, b] = [tempDir(t), tempDir(t)];
  const file = path.join(home, LIST);
  const [first, second] = [new TrustedFolders(home), new TrustedFolders(home)];
  first.add(a);
  second.add(b);
  second.add(b);
  assert.equal(readFileSync(file, 'utf8'), `${JSON.stringify(a)}\n${JSON.stringify(b)}\n`);
  writeFileSync(file, '"/trunc\n');
  appendFileSync(file, `${JSON.stringify(b)}\n`);
  assert.deepEqual([first.includes(a), first.includes(b)], [false, true]);
});

test('the folders of the sessions that were served before count as trusted, once', (t) => {
  const home = tempDir(t);
  const [served, spawned, renewed, unknown] = [tempDir(t), folder(tempDir(t), 'a#b'), tempDir(t), tempDir(t)];
  const store = new StateStore({ home, hub: 'http://127.0.0.1:1', namespace: 'n' });
  for (const tag of [`${served}#agent`, `${spawned}#0f`, `${renewed}#agent#1e`, 'own-tag', 'import#agent#7', '/removed#agent']) {
    const state = store.openSession(tag);
    state.attach(`session-${tag}`, 0);
    state.release();
  }
  const trusted = new TrustedFolders(home);
  assert.deepEqual(
    [served, spawned, renewed, unknown].map((directory) => trusted.includes(directory)),
    [true, true, true, false],
  );
  writeFileSync(path.join(home, LIST), '');
  assert.equal(trusted.includes(served), false, 'a deleted line stays deleted');
});

/** A machine that serves a directory. `start` calls one of its methods, and returns the answer and the directories of started processes. */
function machine(t, { runsFolderCode = true } = {}) {
  const dir = tempDir(t);
  const home = tempDir(t);
  const program = { runsFolderCode, canFork: true, defaultAgent: () => 'alpha', agentArgs: () => [] };
  const options = { program, home, directories: [dir], machineId: 'm', hub: '', token: '', namespace: 'n', log: quietLog() };
  const spawner = new Spawner(/** @type {any} */ (options));
  const started = [];
  spawner.processes.start = async ([directory]) => {
    started.push(directory);
    return { success: true, sessionId: 's' };
  };
  const methods = {
    spawn: (params) => spawner.spawn(params),
    resume: (params) => spawner.spawn({ ...params, sessionId: 's', resumeSessionId: 'a' }),
    fork: (params) => spawner.fork({ ...params, sessionId: 's', seq: 1 }),
    import: (params) => spawner.spawnWithArgs({ ...params, agent: 'alpha', args: [] }),
  };
  const socket = /** @type {any} */ ({ onRpc: () => {} });
  const rpc = new RpcServer({ socket, scopeId: 'm', log: quietLog(), methods });
  const start = async (method, params) => JSON.parse(await rpc.answer({ method, params: JSON.stringify(params) }));
  return { dir, home, start, started };
}

for (const method of ['spawn', 'resume', 'fork', 'import']) {
  test(`${method} in a folder that is not trusted starts no process, until a client trusts the folder`, async (t) => {
    const { dir, home, start, started } = machine(t);
    const directory = folder(dir, 'fresh');
    for (const trust of [undefined, null, false, 'true']) {
      const { success, code, error } = await start(method, { directory, trust });
      assert.deepEqual([success, code], [false, 'untrusted_directory']);
      assert.match(error, new RegExp(`^${directory} is not trusted on this machine`));
    }
    assert.deepEqual(started, []);
    const trusting = { directory: path.join(directory, '..', 'fresh'), trust: true };
    assert.equal((await start(method, trusting)).success, true);
    assert.equal((await start(method, { directory })).success, true);
    assert.deepEqual(started, [`--dir=${directory}`, `--dir=${directory}`]);
    assert.equal(new TrustedFolders(home).includes(dir), false);
  });
}

test('a request that fails for another reason trusts nothing', async (t) => {
  const { dir, home, start } = machine(t);
  const outside = tempDir(t);
  for (const params of [{ directory: outside }, { directory: dir, agent: 'no agent' }]) {
    const { code, error } = await start('spawn', { ...params, trust: true });
    assert.equal(code, undefined, error);
  }
  assert.deepEqual(
    [dir, outside].map((directory) => new TrustedFolders(home).includes(directory)),
    [false, false],
  );
});

test('a worktree of a trusted repository is started without a question, and none is made of another one', async (t) => {
  const { dir, start, started } = machine(t);
  const { git } = repository(t, folder(dir, 'repository'));
  git('commit', '--allow-empty', '-m', 'first');
  const params = { directory: path.join(dir, 'repository'), sessionType: 'worktree', worktreeName: 'try' };
  assert.equal((await start('spawn', params)).code, 'untrusted_directory');
  assert.equal(git('worktree', 'list').trim().split('\n').length, 1);
  assert.equal((await start('spawn', { ...params, trust: true })).success, true);
  const worktree = path.join(dir, 'repository', '.worktrees', 'try');
  assert.equal((await start('spawn', { directory: worktree })).success, true);
  assert.deepEqual(started, [`--dir=${worktree}`, `--dir=${worktree}`]);
});

test('a worktree without the trusted subfolder starts in its root, which needs trust of its own', async (t) => {
  const { dir, start, started } = machine(t);
  const { git, write } = repository(t, folder(dir, 'repository'));
  git('commit', '--allow-empty', '-m', 'first');
  git('branch', 'empty');
  write('sub/a.txt', 'a\n');
  const directory = path.join(dir, 'repository', 'sub');
  assert.equal((await start('spawn', { directory, trust: true })).success, true);
  const params = { directory, sessionType: 'worktree', worktreeName: 'try', branch: 'empty' };
  assert.equal((await start('spawn', params)).code, 'untrusted_directory');
  assert.equal((await start('spawn', { ...params, trust: true })).success, true);
  assert.deepEqual(started, [`--dir=${directory}`, `--dir=${path.join(dir, 'repository', '.worktrees', 'try')}`]);
});

test('a program whose agents run no code of the folder asks for no trust', async (t) => {
  const { dir, start } = machine(t, { runsFolderCode: false });
  assert.equal((await start('spawn', { directory: dir })).success, true);
});
