import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { describeWorktree, openWorktree } from '../src/worktree.mjs';
import { repository, tempDir } from './support/repository.mjs';

/** A repository with one commit on `main`: `a.txt` and `sub/b.txt`. */
function committed(t) {
  const place = repository(t);
  place.write('a.txt', 'a\n');
  place.write('sub/b.txt', 'b\n');
  place.git('add', '.');
  place.git('commit', '-m', 'first');
  return place;
}

test('a worktree is a checkout and a branch of its own, and git sees nothing of it in the repository', async (t) => {
  const { dir, git } = committed(t);
  const before = Date.now();
  const worktree = await openWorktree({ directory: dir, directories: [dir], name: 'fix-1' });
  assert.equal(worktree, path.join(dir, '.worktrees', 'fix-1'));
  assert.match(git('worktree', 'list'), new RegExp(`^${worktree} +[0-9a-f]+ \\[fix-1\\]$`, 'm'));
  assert.equal(readFileSync(path.join(worktree, 'a.txt'), 'utf8'), 'a\n');
  assert.equal(git('status', '--porcelain'), '');
  const { createdAt, ...described } = await describeWorktree(worktree);
  assert.deepEqual(described, { basePath: dir, branch: 'fix-1', name: 'fix-1', worktreePath: worktree });
  assert.ok(createdAt >= before - 1000 && createdAt <= Date.now() + 1000);
});

test('only linked worktrees are described, with what is checked out in them now', async (t) => {
  const { dir, git } = committed(t);
  assert.equal(await describeWorktree(dir), undefined);
  assert.equal(await describeWorktree(tempDir(t)), undefined);
  const own = path.join(tempDir(t), 'mine');
  git('worktree', 'add', '--detach', own);
  mkdirSync(path.join(own, 'sub'), { recursive: true });
  const { basePath, branch, name, worktreePath } = await describeWorktree(path.join(own, 'sub'));
  assert.deepEqual([basePath, branch, name, worktreePath], [dir, 'HEAD', 'mine', own]);
});

test('a worktree that is there is taken again, also by two who ask at once', async (t) => {
  const { dir, git } = committed(t);
  const open = () => openWorktree({ directory: dir, directories: [dir], name: 'same' });
  const [first, second] = await Promise.all([open(), open()]);
  assert.equal(first, second);
  writeFileSync(path.join(first, 'kept.txt'), '');
  assert.equal(await open(), first);
  assert.ok(existsSync(path.join(first, 'kept.txt')));
  assert.equal(git('worktree', 'list').trim().split('\n').length, 2);
});

test('a session below the top of the repository gets the same place in the worktree, if it is there', async (t) => {
  const { dir, write } = committed(t);
  write('new/c.txt', 'not committed\n');
  const open = (sub, name) => openWorktree({ directory: path.join(dir, sub), directories: [dir], name });
  assert.equal(await open('sub', 'one'), path.join(dir, '.worktrees', 'one', 'sub'));
  assert.equal(await open('new', 'two'), path.join(dir, '.worktrees', 'two'));
});

test('a worktree made from a worktree lies beside it, and starts where that one is', async (t) => {
  const { dir, git } = committed(t);
  const first = await openWorktree({ directory: dir, directories: [dir], name: 'first' });
  writeFileSync(path.join(first, 'more.txt'), '');
  git('-C', first, 'add', '.');
  git('-C', first, 'commit', '-m', 'second');
  const second = await openWorktree({ directory: first, directories: [dir], name: 'second' });
  assert.equal(second, path.join(dir, '.worktrees', 'second'));
  assert.ok(existsSync(path.join(second, 'more.txt')));
  assert.equal((await describeWorktree(second)).basePath, dir);
});

test('what cannot be made is refused with the reason', async (t) => {
  const { dir, git } = committed(t);
  const plain = tempDir(t);
  const empty = repository(t).dir;
  const bare = path.join(tempDir(t), 'bare.git');
  git('clone', '--quiet', '--bare', dir, bare);
  git('branch', 'taken');
  mkdirSync(path.join(dir, '.worktrees', 'occupied', 'x'), { recursive: true });
  for (const [directory, name, reason] of [
    [plain, 'x', /^Not a git repository: /],
    [empty, 'x', /has no commit yet/],
    [bare, 'x', /work tree/],
    [dir, 'taken', /^There is a branch taken already, but no worktree of that name\. Take another name\.$/],
    [dir, 'occupied', /already exists/],
    [dir, 'HEAD', /HEAD/],
  ]) {
    await assert.rejects(openWorktree({ directory, directories: [directory], name }), { message: reason }, name);
  }
  assert.equal(git('worktree', 'list').trim().split('\n').length, 1);
});

test('a name that is no branch and no folder is refused', async (t) => {
  const { dir } = committed(t);
  for (const name of [undefined, '', 5, '..', '../x', 'a/b', '-b', '.hidden', 'a b', 'x..y', 'x.lock', 'x.', 'a\0', 'é', 'x'.repeat(65)]) {
    await assert.rejects(openWorktree({ directory: dir, directories: [dir], name }), /"worktreeName"/, String(name));
  }
  assert.equal(existsSync(path.join(dir, '.worktrees')), false);
});

test('nothing is made outside the directories that the machine serves', async (t) => {
  const { dir } = committed(t);
  const sub = path.join(dir, 'sub');
  await assert.rejects(openWorktree({ directory: sub, directories: [sub], name: 'x' }), /outside the directories/);
  const outside = tempDir(t);
  symlinkSync(outside, path.join(dir, '.worktrees'));
  await assert.rejects(openWorktree({ directory: dir, directories: [dir], name: 'x' }), /leads outside/);
  rmSync(path.join(dir, '.worktrees'));
});

test('making a worktree runs no hook of the repository', async (t) => {
  const { dir } = committed(t);
  const hook = path.join(dir, '.git', 'hooks', 'post-checkout');
  mkdirSync(path.dirname(hook), { recursive: true });
  writeFileSync(hook, `#!/bin/sh\ntouch ${dir}/hooked\n`, { mode: 0o755 });
  await openWorktree({ directory: dir, directories: [dir], name: 'x' });
  assert.equal(existsSync(path.join(dir, 'hooked')), false);
});
