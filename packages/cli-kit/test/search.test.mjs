import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { checkRipgrepArgs, isResult, searchMethods } from '../src/search.mjs';
import { tempDir } from './support/repository.mjs';

function setUp(t) {
  const base = tempDir(t);
  const root = path.join(base, 'served');
  mkdirSync(path.join(root, 'src'), { recursive: true });
  writeFileSync(path.join(root, 'README.md'), 'Hello\n');
  writeFileSync(path.join(root, 'src', 'main.rs'), 'fn main() {}\n');
  writeFileSync(path.join(base, 'secret.md'), 'Hello\n');
  symlinkSync('..', path.join(root, 'up'));
  return { base, root, search: searchMethods(root) };
}

test('files are found by a part of their name, ignoring case', async (t) => {
  const { root, search } = setUp(t);
  const found = await search.runRipgrep({ args: ['--files', '--iglob', '*readme*'], cwd: root });
  assert.deepEqual([found.success, found.stdout], [true, 'README.md\n']);
  const all = await search.runRipgrep({ args: ['--files'], cwd: root });
  assert.deepEqual(all.stdout.trim().split('\n').sort(), ['README.md', 'src/main.rs']);
});

test('a search without matches succeeds', async (t) => {
  const { root, search } = setUp(t);
  const found = await search.runRipgrep({ args: ['--files', '--iglob', '*nothing*'], cwd: root });
  assert.deepEqual([found.success, found.stdout], [true, '']);
});

test('text is found, in the directory or in a named folder', async (t) => {
  const { search } = setUp(t);
  assert.equal((await search.runRipgrep({ args: ['-n', 'main', 'src'] })).stdout, 'src/main.rs:1:fn main() {}\n');
  assert.equal((await search.runRipgrep({ args: ['-e', 'Hello', '-il'] })).stdout, 'README.md\n');
});

test('an invalid pattern is an error', async (t) => {
  const { search } = setUp(t);
  const answer = await search.runRipgrep({ args: ['(unclosed'] });
  assert.equal(answer.success, false);
  assert.match(answer.error, /regex|rg/);
});

const REFUSED = [
  [['--pre', 'sh', 'x']],
  [['--pre=sh', 'x']],
  [['--hostname-bin=sh', 'x']],
  [['--search-zip', 'x']],
  [['-z', 'x']],
  [['-iz', 'x']],
  [['--follow', 'x']],
  [['-L', '--files']],
  [['-nL', 'x']],
  [['--file=/etc/passwd']],
  [['-f', '/etc/passwd']],
  [['-if/etc/passwd']],
  [['--ignore-file', '/etc/passwd', 'x']],
  [['--files=1']],
  [['-g']],
];

for (const [args] of REFUSED) {
  test(`rg ${args.join(' ')} is refused`, () => {
    assert.throws(() => checkRipgrepArgs(args), /is not allowed|needs a value/);
  });
}

test('paths outside the directory are refused at every position', async (t) => {
  const { base, root, search } = setUp(t);
  for (const args of [
    ['--files', '..'],
    ['--files', base],
    ['Hello', 'src', '../secret.md'],
    ['-e', 'Hello', '/etc'],
    ['Hello', '--', '../secret.md'],
    ['--files', 'up'],
  ]) {
    await assert.rejects(search.runRipgrep({ args, cwd: root }), /must not contain|must be relative|leads outside/, args.join(' '));
  }
  await assert.rejects(search.runRipgrep({ args: ['--files'], cwd: base }), /outside/);
  await assert.rejects(search.runRipgrep({ args: ['x', '-'] }), /standard input/);
  await assert.rejects(search.runRipgrep({ args: 'x' }), /array of strings/);
});

test('a pattern is not checked as a path', () => {
  assert.deepEqual(checkRipgrepArgs(['../x', 'src']).paths, ['src']);
  assert.deepEqual(checkRipgrepArgs(['-A3', '--glob', '../*', 'x', 'src']).paths, ['src']);
});

test('a folder that cannot be read does not fail the search, with or without matches elsewhere', () => {
  const stderr = 'rg: ./closed: Permission denied (os error 13)\nrg: ./other: Permission denied (os error 13)\n';
  assert.equal(isResult({ code: 2, stdout: 'README.md\n', stderr }), true);
  assert.equal(isResult({ code: 2, stdout: '', stderr }), true);
  assert.equal(isResult({ code: 2, stdout: '', stderr: `rg: regex parse error:\n${stderr}` }), false);
});
