/** Directories in which no program can run. */

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { describeDirectoryProblem } from '../src/directory-problem.mjs';
import { run } from '../src/exec.mjs';
import { tempDir } from './support/repository.mjs';

test('a directory that is missing, a file, or closed to this user is named', async (t) => {
  const base = tempDir(t);
  const [missing, file, closed] = ['missing', 'file', 'closed'].map((name) => path.join(base, name));
  writeFileSync(file, '');
  mkdirSync(closed);
  assert.equal(describeDirectoryProblem(base), null);
  assert.equal(describeDirectoryProblem(missing), `There is no directory ${missing}.`);
  assert.equal(describeDirectoryProblem(path.join(file, 'x')), `There is no directory ${path.join(file, 'x')}.`);
  assert.equal(describeDirectoryProblem(file), `${file} is not a directory.`);
  await assert.rejects(run('git', ['status'], { cwd: missing }), { message: `There is no directory ${missing}.` });
  await assert.rejects(run('no-such-program', [], { cwd: base }), { message: 'no-such-program is not installed on this machine.' });
  if (process.getuid?.() === 0) return t.diagnostic('root may read each directory');
  chmodSync(closed, 0o000);
  assert.equal(describeDirectoryProblem(closed), `This user may not read the directory ${closed}.`);
});
