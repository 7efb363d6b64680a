// Reading the results of git calls: the fields of the protocol, and the output of git.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { describeConflict, readDiff, readLineCounts, readStatus } from '../src/content/git-output.ts';

let directory = '';
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: directory, encoding: 'utf8' });
const write = (file: string, content: string) => writeFileSync(path.join(directory, file), content);

before(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'git-output-'));
  git('init', '-q', '-b', 'main');
  mkdirSync(path.join(directory, 'src'));
  for (const file of ['changed', 'both', 'deleted', 'src/old', 'wörd "q"'])
    write(file, file.includes('/') ? 'moved\n' : 'one\ntwo\nthree\n');
  git('add', '.');
  git('commit', '-qm', 'first');
  write('changed', 'one\ntwo\n');
  write('both', 'zero\none\ntwo\nthree\n');
  write('wörd "q"', 'one\n');
  write('added', 'new\n');
  git('add', 'both', 'added');
  write('both', 'zero\n');
  git('mv', 'src/old', 'src/new');
  git('rm', '-q', 'deleted');
  write('a b', 'untracked\n');
});
after(() => rmSync(directory, { recursive: true }));

const EXPECTED = [
  { path: 'a b', status: 'untracked', index: '?', worktree: '?' },
  { path: 'added', status: 'added', index: 'A', worktree: '.' },
  { path: 'both', status: 'modified', index: 'M', worktree: 'M' },
  { path: 'changed', status: 'modified', index: '.', worktree: 'M' },
  { path: 'deleted', status: 'deleted', index: 'D', worktree: '.' },
  { path: 'src/new', status: 'renamed', index: 'R', worktree: '.', oldPath: 'src/old' },
  { path: 'wörd "q"', status: 'modified', index: '.', worktree: 'M' },
];
const sorted = <T extends { path: string }>(files: T[]) => files.toSorted((a, b) => (a.path < b.path ? -1 : 1));

for (const options of [
  ['--porcelain=v2', '--branch'],
  ['--porcelain', '--branch'],
]) {
  test(`reads git status ${options.join(' ')}`, () => {
    const { branch, files } = readStatus({ success: true, stdout: git('status', ...options) });
    assert.equal(branch, 'main');
    assert.deepEqual(sorted(files), EXPECTED);
  });
}

test('reads conflicts, detached heads and ignored files', () => {
  const v2 = '# branch.oid abc\n# branch.head (detached)\n# stash 2\nu UU N... 100644 100644 100644 100644 a b c file\n! ignored\n';
  const v1 = '## HEAD (no branch)\r\nUU file\r\n!! ignored\r\n';
  for (const stdout of [v2, v1])
    assert.deepEqual(readStatus({ stdout }), {
      branch: null,
      files: [{ path: 'file', status: 'conflicted', index: 'U', worktree: 'U' }],
      more: 0,
    });
  assert.deepEqual(
    ['## main...origin/main [ahead 1]', '## No commits yet on main'].map((stdout) => readStatus({ stdout }).branch),
    ['main', 'main'],
  );
  assert.deepEqual(readStatus({ stdout: '' }), { branch: null, files: [], more: 0 }, 'a clean tree');
});

test('reads git diff --numstat', () => {
  const unstaged = readLineCounts({ stdout: git('diff', '--numstat') });
  assert.deepEqual(sorted([...unstaged.values()]), [
    { path: 'both', added: 0, removed: 3 },
    { path: 'changed', added: 0, removed: 1 },
    { path: 'wörd "q"', added: 0, removed: 2 },
  ]);
  const staged = readLineCounts({ stdout: git('diff', '--cached', '--numstat', '-M') });
  assert.deepEqual([...staged.keys()].toSorted(), ['added', 'both', 'deleted', 'src/new']);
  const lines = '-\t-\timage.png\n1\t2\tsrc/{ => inner}/file\n3\t0\told => new\n';
  assert.deepEqual(
    [...readLineCounts({ stdout: lines }).values()],
    [
      { path: 'image.png', added: 0, removed: 0 },
      { path: 'src/inner/file', added: 1, removed: 2 },
      { path: 'new', added: 3, removed: 0 },
    ],
  );
  // Takes linear time: with a regular expression, this would take an hour.
  const path = '{'.repeat(1_000_000);
  assert.deepEqual([...readLineCounts({ stdout: `1\t1\t${path}` }).keys()], [path]);
});

test('reads a unified diff', () => {
  const stdout = git('diff', '--', 'changed');
  assert.match(stdout, /-three/);
  for (const result of [{ stdout }, { diff: stdout }, { diff: stdout, stdout: 'other' }]) assert.equal(readDiff(result), stdout);
  for (const result of [{ diff: '' }, { stdout: '\n' }]) assert.equal(readDiff(result).trim(), '');
});

test('reads the fields of the protocol', () => {
  const files = [{ path: 'a', status: 'modified' }, { path: 'b', index: 'A' }, { status: 'no path' }];
  assert.deepEqual(readStatus({ branch: 'main', files }), {
    branch: 'main',
    files: [
      { path: 'a', status: 'modified' },
      { path: 'b', index: 'A', status: 'unknown' },
    ],
    more: 0,
  });
  assert.deepEqual(
    [...readLineCounts({ files: [{ path: 'a', added: 1, removed: 2 }, { path: 'b' }] }).values()],
    [{ path: 'a', added: 1, removed: 2 }],
  );
});

test('reads folders of changed files, and how many entries follow', () => {
  const files = [{ path: 'data/', status: 'untracked', index: '?', worktree: '?', count: 50_000 }];
  assert.deepEqual(readStatus({ branch: 'main', files, more: 7 }), { branch: 'main', files, more: 7 });
  assert.equal(readStatus({ branch: 'main', files: [], more: 'many' }).more, 0);
});

test('a result with neither fields nor output of git is an error', () => {
  const unreadable = /cannot read/;
  for (const result of [{}, { files: 'none' }, { stdout: 5 }, { stdout: 'fatal: not a git repository' }, { output: ' M a' }]) {
    assert.throws(() => readStatus(result), unreadable);
    assert.throws(() => readLineCounts(result), unreadable);
    assert.throws(() => readDiff(result), unreadable);
  }
});

test('says in words what both sides of a conflict did', () => {
  const file = { path: 'a', status: 'conflicted' };
  assert.equal(describeConflict({ ...file, index: 'U', worktree: 'D' }), 'deleted by them');
  assert.equal(describeConflict({ ...file, index: 'D', worktree: 'U' }), 'deleted by us');
  assert.equal(describeConflict(file), null);
  assert.equal(describeConflict({ ...file, status: 'modified', index: 'A', worktree: 'A' }), null);
});

test('reads the diff of a conflict', () => {
  const combined = 'diff --cc a\nindex 1,2..0\n--- a/a\n+++ b/a\n@@@ -1,1 -1,1 +1,5 @@@\n++<<<<<<< HEAD\n +ours\n';
  assert.equal(readDiff({ stdout: combined }), combined);
  assert.equal(readDiff({ stdout: '* Unmerged path a\n' }), '');
  assert.equal(readDiff({ diff: `* Unmerged path a\n${combined}` }), combined);
});
