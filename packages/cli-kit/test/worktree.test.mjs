import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { describeWorktree, listBranches, openWorktree } from '../src/worktree.mjs';
import { repository, tempDir } from './support/repository.mjs';

/** A repository with one commit on `main`: `a.txt` and `sub/b.txt`. */
function committedRepository(t) {
  const created = repository(t);
  created.commit({ 'a.txt': 'a\n', 'sub/b.txt': 'b\n' });
  return created;
}

test('a worktree is a separate checkout and branch, which git status does not show', async (t) => {
  const { dir, git } = committedRepository(t);
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

test('only linked worktrees are described, with their current branch', async (t) => {
  const { dir, git } = committedRepository(t);
  assert.equal(await describeWorktree(dir), undefined);
  assert.equal(await describeWorktree(tempDir(t)), undefined);
  const own = path.join(tempDir(t), 'mine');
  git('worktree', 'add', '--detach', own);
  mkdirSync(path.join(own, 'sub'), { recursive: true });
  const { basePath, branch, name, worktreePath } = await describeWorktree(path.join(own, 'sub'));
  assert.deepEqual([basePath, branch, name, worktreePath], [dir, 'HEAD', 'mine', own]);
});

test('an existing worktree is reused, also by concurrent calls', async (t) => {
  const { dir, git } = committedRepository(t);
  const open = () => openWorktree({ directory: dir, directories: [dir], name: 'same' });
  const [first, second] = await Promise.all([open(), open()]);
  assert.equal(first, second);
  writeFileSync(path.join(first, 'kept.txt'), '');
  assert.equal(await open(), first);
  assert.ok(existsSync(path.join(first, 'kept.txt')));
  assert.equal(git('worktree', 'list').trim().split('\n').length, 2);
});

test('a subdirectory of the repository maps to the same subdirectory of the worktree, if that exists', async (t) => {
  const { dir, write } = committedRepository(t);
  write('new/c.txt', 'not committed\n');
  const open = (sub, name) => openWorktree({ directory: path.join(dir, sub), directories: [dir], name });
  assert.equal(await open('sub', 'one'), path.join(dir, '.worktrees', 'one', 'sub'));
  assert.equal(await open('new', 'two'), path.join(dir, '.worktrees', 'two'));
});

test('a worktree created from a worktree is next to it and starts from its commit', async (t) => {
  const { dir, git } = committedRepository(t);
  const first = await openWorktree({ directory: dir, directories: [dir], name: 'first' });
  writeFileSync(path.join(first, 'more.txt'), '');
  git('-C', first, 'add', '.');
  git('-C', first, 'commit', '-m', 'second');
  const second = await openWorktree({ directory: first, directories: [dir], name: 'second' });
  assert.equal(second, path.join(dir, '.worktrees', 'second'));
  assert.ok(existsSync(path.join(second, 'more.txt')));
  assert.equal((await describeWorktree(second)).basePath, dir);
});

test('a worktree starts from the chosen branch, also from a remote one', async (t) => {
  const { dir, git, commit } = committedRepository(t);
  git('switch', '--quiet', '-c', 'team/feature');
  commit({ 'feature.txt': 'new\n' });
  git('update-ref', 'refs/remotes/origin/next', 'HEAD');
  git('switch', '--quiet', 'main');
  const open = (name, branch) => openWorktree({ directory: dir, directories: [dir], name, branch });
  for (const [name, branch] of [
    ['from-local', 'team/feature'],
    ['from-remote', 'origin/next'],
  ]) {
    const worktree = await open(name, branch);
    assert.ok(existsSync(path.join(worktree, 'feature.txt')), branch);
    assert.equal((await describeWorktree(worktree)).branch, name);
  }
  assert.equal(existsSync(path.join(await open('from-head', undefined), 'feature.txt')), false);
});

test('a branch that does not exist is refused, also if its name is an option or an expression of git', async (t) => {
  const { dir, git } = committedRepository(t);
  git('tag', 'v1');
  const long = 'x'.repeat(251);
  for (const branch of [
    null,
    5,
    {},
    ['main'],
    '',
    '-x',
    '--force',
    '--exec=touch x',
    'a b',
    'main~1',
    '@{-1}',
    'a..b',
    'main\0',
    'x\n',
    long,
  ]) {
    await assert.rejects(
      openWorktree({ directory: dir, directories: [dir], name: 'x', branch }),
      /^Error: "branch" must be the name/,
      String(branch),
    );
  }
  for (const branch of ['none', 'v1', 'refs/heads/main', 'HEAD', git('rev-parse', 'HEAD').trim()]) {
    await assert.rejects(openWorktree({ directory: dir, directories: [dir], name: 'x', branch }), /has no branch/, branch);
  }
  assert.equal(git('worktree', 'list').trim().split('\n').length, 1);
});

test('a worktree that cannot be created is refused with the reason', async (t) => {
  const { dir, git } = committedRepository(t);
  const plain = tempDir(t);
  const empty = repository(t).dir;
  const bare = path.join(tempDir(t), 'bare.git');
  git('clone', '--quiet', '--bare', dir, bare);
  mkdirSync(path.join(dir, '.worktrees', 'occupied', 'x'), { recursive: true });
  /** @type {[string, string, RegExp][]} */
  const refusals = [
    [plain, 'x', /^Not a git repository: /],
    [empty, 'x', /has no commits/],
    [bare, 'x', /work tree/],
    [dir, 'occupied', /already exists/],
    [dir, 'HEAD', /HEAD/],
  ];
  for (const [directory, name, reason] of refusals) {
    await assert.rejects(openWorktree({ directory, directories: [directory], name }), { message: reason }, name);
  }
  assert.equal(git('worktree', 'list').trim().split('\n').length, 1);
});

test('a name that cannot be a branch or a folder is refused', async (t) => {
  const { dir } = committedRepository(t);
  for (const name of [
    undefined,
    '',
    5,
    '..',
    '../x',
    'a/',
    '/a',
    'a//b',
    'a/.b',
    '-b',
    '.hidden',
    'a b',
    'x..y',
    'x.lock',
    'x.',
    'a\0',
    'a\n',
    'a\\b',
    'x'.repeat(201),
  ]) {
    await assert.rejects(openWorktree({ directory: dir, directories: [dir], name }), /"worktreeName"/, String(name));
  }
  assert.equal(existsSync(path.join(dir, '.worktrees')), false);
});

test('no worktree is created outside the served directories', async (t) => {
  const { dir } = committedRepository(t);
  const sub = path.join(dir, 'sub');
  await assert.rejects(openWorktree({ directory: sub, directories: [sub], name: 'x' }), /outside the directories/);
  const outside = tempDir(t);
  symlinkSync(outside, path.join(dir, '.worktrees'));
  await assert.rejects(openWorktree({ directory: dir, directories: [dir], name: 'x' }), /leads outside/);
  rmSync(path.join(dir, '.worktrees'));
});

test('creating a worktree runs no hooks of the repository', async (t) => {
  const { dir } = committedRepository(t);
  const hook = path.join(dir, '.git', 'hooks', 'post-checkout');
  mkdirSync(path.dirname(hook), { recursive: true });
  writeFileSync(hook, `#!/bin/sh\ntouch ${dir}/hooked\n`, { mode: 0o755 });
  await openWorktree({ directory: dir, directories: [dir], name: 'x' });
  assert.equal(existsSync(path.join(dir, 'hooked')), false);
});

test('an existing branch gets a worktree, also if its name has slashes or letters of other scripts', async (t) => {
  const { dir, git, commit } = committedRepository(t);
  git('switch', '--quiet', '-c', 'feature/größe-名前');
  commit({ 'feature.txt': 'new\n' });
  git('switch', '--quiet', 'main');
  git('update-ref', 'refs/remotes/origin/next', 'HEAD');
  const open = (name, branch) => openWorktree({ directory: dir, directories: [dir], name, branch });
  const worktree = await open('feature/größe-名前');
  assert.equal(worktree, path.join(dir, '.worktrees', 'feature', 'größe-名前'));
  assert.ok(existsSync(path.join(worktree, 'feature.txt')));
  const { branch, name } = await describeWorktree(worktree);
  assert.deepEqual([branch, name], ['feature/größe-名前', 'feature/größe-名前']);
  assert.equal(await open('feature/größe-名前', 'main'), worktree);
  assert.equal((await describeWorktree(await open('new/ветка'))).branch, 'new/ветка');
  git('branch', 'other');
  await assert.rejects(open('other', 'main'), /^Error: "branch": the branch other exists already/);
  await assert.rejects(open('origin/next'), /^Error: "worktreeName": origin\/next is a remote branch/);
});

test('a branch that is checked out elsewhere is refused with the place, unless that folder was deleted', async (t) => {
  const { dir, git } = committedRepository(t);
  const elsewhere = path.join(tempDir(t), 'mine');
  git('worktree', 'add', '--quiet', '-b', 'taken', elsewhere);
  const open = (name, directories) => openWorktree({ directory: dir, directories, name });
  await assert.rejects(open('main', [dir]), {
    message: `The branch main is checked out in ${dir}. Start the session there, or use another name.`,
  });
  await assert.rejects(open('taken', [dir, elsewhere]), { message: new RegExp(`^The branch taken is checked out in ${elsewhere}\\.`) });
  await assert.rejects(open('taken', [dir]), /^Error: The branch taken is checked out in a directory that this machine does not serve\./);
  rmSync(elsewhere, { recursive: true });
  const worktree = await open('taken', [dir]);
  assert.equal((await describeWorktree(worktree)).branch, 'taken');
  rmSync(worktree, { recursive: true });
  assert.equal(await open('taken', [dir]), worktree);
  assert.ok(existsSync(path.join(worktree, 'a.txt')));
});

test('a bare repository with worktrees around it, and a served linked worktree, get further worktrees', async (t) => {
  const { dir } = committedRepository(t);
  const project = tempDir(t);
  const main = path.join(project, 'main');
  const { git } = repository(t);
  git('clone', '--quiet', '--bare', dir, path.join(project, '.bare'));
  writeFileSync(path.join(project, '.git'), 'gitdir: ./.bare\n');
  git('-C', project, 'worktree', 'add', '--quiet', main, 'main');
  for (const [name, directory, served, place] of [
    ['one', main, project, path.join(project, '.worktrees', 'one')],
    ['two', project, project, path.join(project, '.worktrees', 'two')],
    ['three', main, main, path.join(main, '.worktrees', 'three')],
    ['four', path.join(main, 'sub'), main, path.join(main, '.worktrees', 'four', 'sub')],
  ]) {
    assert.equal(await openWorktree({ directory, directories: [served], name }), place, name);
    assert.equal((await describeWorktree(place)).basePath, project);
  }
  assert.equal(git('-C', main, 'status', '--porcelain'), '');
  assert.deepEqual((await listBranches({ directory: project, directories: [project] })).branches.sort(), [
    'four',
    'main',
    'one',
    'three',
    'two',
  ]);
});
