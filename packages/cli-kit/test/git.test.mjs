import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { groupByFolder } from '../src/changed-folders.mjs';
import { describeGitError } from '../src/git.mjs';
import { gitMethods } from '../src/git-methods.mjs';
import { parseNumstat, parseStatus } from '../src/git-output.mjs';
import { repository, tempDir } from './support/repository.mjs';

const byPath = (files) => Object.fromEntries(files.map(({ path: name, status }) => [name, status]));

test('git status reports each kind of change, also for names with spaces, tabs and line breaks', async (t) => {
  const { dir, git, write, commit } = repository(t);
  commit({
    'edited.txt': 'one\n',
    'old name.txt': 'a file with enough text to be recognized after a rename\n',
    'deleted.txt': 'bye\n',
    'removed-from-index.txt': 'bye\n',
  });
  write('edited.txt', 'two\n');
  git('mv', 'old name.txt', 'new näme.txt');
  git('rm', 'deleted.txt');
  git('rm', '--cached', 'removed-from-index.txt');
  write('added.txt', 'new\n');
  git('add', 'added.txt');
  write('folder/with\ttab and\nline.txt', 'x');
  const status = await gitMethods(dir).gitStatus({ cwd: dir });
  assert.equal(status.success, true);
  assert.equal(status.branch, 'main');
  assert.deepEqual(
    status.files
      .filter(({ path: name }) => name === 'removed-from-index.txt')
      .map((file) => file.status)
      .sort(),
    ['deleted', 'untracked'],
  );
  const rest = byPath(status.files.filter(({ path: name }) => name !== 'removed-from-index.txt'));
  assert.deepEqual(rest, {
    'edited.txt': 'modified',
    'new näme.txt': 'renamed',
    'deleted.txt': 'deleted',
    'added.txt': 'added',
    'folder/with\ttab and\nline.txt': 'untracked',
  });
  assert.equal(status.files.find((file) => file.status === 'renamed').oldPath, 'old name.txt');
});

test('a repository without commits reports its branch, and a repository with a detached HEAD reports its commit', async (t) => {
  const { dir, git, commit } = repository(t);
  assert.equal((await gitMethods(dir).gitStatus({})).branch, 'main');
  commit({ 'a.txt': 'a' });
  const oid = git('rev-parse', 'HEAD').trim();
  git('checkout', '--detach');
  const status = await gitMethods(dir).gitStatus({});
  assert.equal(status.branch, oid.slice(0, 12));
  assert.equal(status.detached, true);
});

test('ahead and behind are read from the branch header', () => {
  const status = parseStatus('# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -3\0');
  assert.deepEqual([status.upstream, status.ahead, status.behind], ['origin/main', 2, 3]);
});

test('outside a repository every method fails with "Not a git repository"', async (t) => {
  const dir = tempDir(t);
  const git = gitMethods(dir);
  for (const answer of [
    await git.gitStatus({ cwd: dir }),
    await git.gitDiffNumstat({ cwd: dir }),
    await git.gitDiffFile({ cwd: dir, filePath: 'a.txt' }),
  ]) {
    assert.equal(answer.success, false);
    assert.match(answer.error, /^Not a git repository: /);
  }
});

test("the error for another user's repository names the command that allows git to read it", () => {
  const stderr = `fatal: detected dubious ownership in repository at '/srv/app'
To add an exception for this directory, call:

\tgit config --global --add safe.directory /srv/app`;
  assert.match(
    describeGitError({ code: 128, stderr }, '/srv/app/src'),
    /^Another user owns .*: git config --global --add safe\.directory \/srv\/app$/,
  );
});

test('numstat counts lines, staged or not, and marks binary files', async (t) => {
  const { dir, git, write, commit } = repository(t);
  commit({ 'text.txt': 'a\nb\nc\n', 'image.bin': Buffer.from([0, 1, 2, 3]) });
  write('text.txt', 'a\nB\nc\nd\n');
  write('image.bin', Buffer.from([0, 9, 9]));
  const methods = gitMethods(dir);
  assert.deepEqual((await methods.gitDiffNumstat({ cwd: dir })).files, [
    { path: 'image.bin', added: 0, removed: 0, binary: true },
    { path: 'text.txt', added: 2, removed: 1 },
  ]);
  assert.deepEqual((await methods.gitDiffNumstat({ cwd: dir, staged: true })).files, []);
  git('add', 'text.txt');
  assert.deepEqual((await methods.gitDiffNumstat({ cwd: dir, staged: true })).files, [{ path: 'text.txt', added: 2, removed: 1 }]);
});

test('numstat of a rename carries both names', () => {
  assert.deepEqual(parseNumstat('1\t2\t\0old.txt\0new.txt\u00003\t0\tplain.txt\0'), [
    { path: 'new.txt', added: 1, removed: 2, oldPath: 'old.txt' },
    { path: 'plain.txt', added: 3, removed: 0 },
  ]);
});

test('a diff shows the changed lines, or the whole file if it is untracked', async (t) => {
  const { dir, git, write, commit } = repository(t);
  commit({ 'a.txt': 'one\n' });
  write('a.txt', 'two\n');
  write('-new file.txt', 'fresh\n');
  const methods = gitMethods(dir);
  const changed = await methods.gitDiffFile({ cwd: dir, filePath: 'a.txt' });
  assert.match(changed.diff, /^-one\n\+two$/m);
  const newFileDiff = await methods.gitDiffFile({ cwd: dir, filePath: '-new file.txt' });
  assert.match(newFileDiff.diff, /new file mode[^]*^\+fresh$/m);
  assert.deepEqual(await methods.gitDiffFile({ cwd: dir, filePath: 'a.txt', staged: true }), {
    success: true,
    diff: '',
  });
  git('add', 'a.txt');
  assert.match((await methods.gitDiffFile({ cwd: dir, filePath: 'a.txt', staged: true })).diff, /^\+two$/m);
});

test('a deleted file has a diff, and a path is not a pattern', async (t) => {
  const { dir, git, write, commit } = repository(t);
  commit({ 'sub/deleted.txt': 'bye\n', 'other.txt': 'x\n' });
  git('rm', '-r', '--quiet', 'sub');
  git('reset', '--quiet');
  write('other.txt', 'y\n');
  const methods = gitMethods(dir);
  assert.match((await methods.gitDiffFile({ filePath: 'sub/deleted.txt' })).diff, /^-bye$/m);
  assert.equal((await methods.gitDiffFile({ filePath: '*.txt' })).diff, '');
});

test('in a subdirectory of a repository, only its files are reported, with relative paths', async (t) => {
  const { dir, write, commit } = repository(t);
  commit({ 'outside.txt': 'a\n', 'sub/inside.txt': 'a\n' });
  write('outside.txt', 'b\n');
  write('sub/inside.txt', 'b\n');
  const sub = path.join(dir, 'sub');
  const methods = gitMethods(sub);
  assert.deepEqual(byPath((await methods.gitStatus({ cwd: sub })).files), { 'inside.txt': 'modified' });
  assert.deepEqual((await methods.gitDiffNumstat({ cwd: sub })).files, [{ path: 'inside.txt', added: 1, removed: 1 }]);
  assert.match((await methods.gitDiffFile({ cwd: sub, filePath: 'inside.txt' })).diff, /^\+b$/m);
  await assert.rejects(methods.gitDiffFile({ cwd: sub, filePath: '../outside.txt' }), /must not contain "\.\."/);
});

test('a working directory outside the served directory is refused, also behind a link', async (t) => {
  const { dir } = repository(t);
  const elsewhere = tempDir(t);
  symlinkSync(elsewhere, path.join(dir, 'link'));
  mkdirSync(path.join(elsewhere, 'deep'));
  const methods = gitMethods(dir);
  await assert.rejects(methods.gitStatus({ cwd: elsewhere }), /outside the session's directory/);
  await assert.rejects(methods.gitStatus({ cwd: path.join(dir, 'link') }), /outside the session's directory/);
  await assert.rejects(methods.gitDiffFile({ filePath: 'link/deep/none.txt' }), /leads outside/);
  for (const filePath of ['..', '../', './..', '/', '/etc', 5, null, 'a\0'])
    await assert.rejects(methods.gitDiffFile({ filePath: /** @type {any} */ (filePath) }), /^Error: "filePath" must/, String(filePath));
});

test('many untracked files of a folder are one entry with their number, and other changes stay in view', async (t) => {
  const { dir, write, commit } = repository(t);
  commit({ 'src/main.rs': 'one\n', 'data/kept.txt': 'one\n' });
  for (let index = 0; index < 700; index += 1) write(`data/raw/${index % 7}/file-${index}.txt`, 'x');
  write('src/main.rs', 'two\n');
  write('data/kept.txt', 'two\n');
  write('src/new.rs', 'x');
  const { gitStatus } = gitMethods(dir);
  const folder = { status: 'untracked', index: '?', worktree: '?' };
  const { files, more } = await gitStatus({});
  assert.deepEqual(
    files.map(({ path: name, status, count }) => [name, status, count]),
    [
      ['data/raw/', 'untracked', 700],
      ['data/kept.txt', 'modified', undefined],
      ['src/main.rs', 'modified', undefined],
      ['src/new.rs', 'untracked', undefined],
    ],
  );
  assert.equal(more, undefined);
  const inside = await gitStatus({ filePath: 'data/raw/' });
  assert.deepEqual(
    inside.files,
    Array.from({ length: 7 }, (_, index) => ({ path: `data/raw/${index}/`, ...folder, count: 100 })),
  );
  const leaf = await gitStatus({ filePath: 'data/raw/0' });
  assert.equal(leaf.files.length, 100);
  assert.ok(leaf.files.every(({ path: name, count }) => /^data\/raw\/0\/file-\d+\.txt$/.test(name) && count === undefined));
});

test('changed files that cannot be grouped come in pages, in order and without a gap', async (t) => {
  const { dir, write } = repository(t);
  for (let index = 0; index < 1203; index += 1) write(`file ${index}.txt`, 'x');
  write('only/one.txt', 'x');
  const { gitStatus } = gitMethods(dir);
  const found = [];
  for (let more = 1; more > 0; ) {
    const page = await gitStatus({ cwd: dir, offset: found.length });
    assert.ok(page.files.length <= 500);
    found.push(...page.files.map(({ path: name }) => name));
    more = page.more ?? 0;
    assert.equal(more, 1204 - found.length);
  }
  assert.equal(new Set(found).size, 1204);
  assert.deepEqual(found, found.toSorted());
  assert.deepEqual((await gitStatus({ offset: 5000 })).files, []);
});

test('the diff of a new file fails when git is killed while it writes', async (t) => {
  const { dir, write } = repository(t);
  write('new.txt', 'one\ntwo\n');
  const bin = tempDir(t);
  const git = execFileSync('sh', ['-c', 'command -v git']).toString().trim();
  const script = `#!/bin/sh\ncase "$*" in *--no-index*) echo 'diff --git'; kill -KILL $$ ;; esac\nexec '${git}' "$@"\n`;
  writeFileSync(path.join(bin, 'git'), script, { mode: 0o755 });
  const { PATH } = process.env;
  t.after(() => (process.env.PATH = PATH));
  process.env.PATH = `${bin}${path.delimiter}${PATH}`;
  await assert.rejects(gitMethods(dir).gitDiffFile({ filePath: 'new.txt' }), /^Error: git was killed\.$/);
});

test('a changed folder outside of the directory is refused', async (t) => {
  const { dir } = repository(t);
  await assert.rejects(gitMethods(dir).gitStatus({ filePath: '../other' }), /"filePath"|\.\./);
});

test('files with different changes in one folder are entries of their own', () => {
  const file = (name, status, index, worktree) => ({ path: name, status, index, worktree });
  const files = [
    ...Array.from({ length: 5 }, (_, index) => file(`a/b/c/${index}`, 'untracked', '?', '?')),
    ...Array.from({ length: 4 }, (_, index) => file(`a/b/c/d${index}/x`, 'modified', '.', 'M')),
    file('a/z', 'modified', 'M', '.'),
    file('top', 'deleted', 'D', '.'),
    file('top', 'untracked', '?', '?'),
  ];
  const pathsOf = (max, base = '') => groupByFolder(files, base, max).map(({ path: name, count }) => (count ? `${name} ${count}` : name));
  assert.equal(pathsOf(12).length, 12);
  assert.deepEqual(pathsOf(8), ['a/b/c/ 5', 'a/b/c/d0/x', 'a/b/c/d1/x', 'a/b/c/d2/x', 'a/b/c/d3/x', 'a/z', 'top', 'top']);
  assert.deepEqual(pathsOf(1), ['a/b/c/ 5', 'a/b/c/ 4', 'a/z', 'top', 'top']);
});
