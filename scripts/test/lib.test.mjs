// The parts of the scripts that decide something.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { CommandFailed, UserError } from '../lib/errors.mjs';
import { withLock } from '../lib/lock.mjs';
import { cargoProgress, elapsed } from '../lib/progress.mjs';
import { readLines, run } from '../lib/run.mjs';
import { atLeast, cargoTools } from '../lib/versions.mjs';

/** @param {import('node:test').TestContext} t */
function temporaryFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-scripts-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('versions compare by number, not by text', () => {
  assert.equal(atLeast('22.12.0', '22.12.0'), true);
  assert.equal(atLeast('v24.0.0', '22.12.0'), true);
  assert.equal(atLeast('22.9.1', '22.12.0'), false);
  assert.equal(atLeast('20.20.2', '22.12.0'), false);
  assert.equal(atLeast('23.0.0-nightly', '22.12.0'), true);
});

test('the cargo tools have the versions that Cargo.lock has of their crates', () => {
  const lock = readFileSync(new URL('../../Cargo.lock', import.meta.url), 'utf8');
  const [workerBuild, wasmBindgen] = cargoTools();
  assert.match(lock, new RegExp(`name = "worker"\nversion = "${workerBuild.version}"`));
  assert.match(lock, new RegExp(`name = "wasm-bindgen"\nversion = "${wasmBindgen.version}"`));
});

test('times are told in the unit a person would use', () => {
  assert.equal(elapsed(1234), '1.2 s');
  assert.equal(elapsed(12_345), '12 s');
  assert.equal(elapsed(59_700), '60 s');
  assert.equal(elapsed(61_000), '1 min 01 s');
});

test("cargo's progress becomes a state, and its errors are kept", () => {
  const states = [];
  const swallow = cargoProgress((state) => states.push(state));
  assert.equal(swallow('    Building [=====>           ] 80/287: syn, zstd-sys(build)'), true);
  assert.equal(swallow('   Compiling syn v2.0.1'), true);
  assert.equal(swallow('error[E0425]: cannot find value `x` in this scope'), false);
  assert.equal(swallow('warning: unused variable: `Building`'), false);
  assert.deepEqual(states, ['80 of 287 crates, syn']);
});

test('lines arrive whole, however the stream is cut, and so do lines rewritten in place', async () => {
  const stream = new PassThrough();
  const lines = [];
  readLines(stream, (line) => lines.push(line));
  for (const chunk of ['one\ntw', 'o\r\n10 %\r20', ' %\rlast']) stream.write(chunk);
  stream.end();
  await once(stream, 'end');
  assert.deepEqual(lines, ['one', 'two', '10 %', '20 %', 'last']);
});

test('a program that fails says how, with its output', async () => {
  const failing = run(process.execPath, ['-e', 'console.error("no such thing"); process.exit(3)']);
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof CommandFailed);
    assert.equal(error.code, 3);
    assert.match(error.output, /no such thing/);
    return true;
  });
});

test('a program that is missing is an error that a person understands', async () => {
  await assert.rejects(run('a-program-that-nobody-has', []), (error) => {
    assert.ok(error instanceof UserError);
    assert.match(error.message, /a-program-that-nobody-has.*not found/);
    return true;
  });
});

test('a lock is held by one at a time and given back', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const order = [];
  let firstMayEnd;
  const first = withLock(file, 'work', async () => {
    order.push('first in');
    await new Promise((resolve) => {
      firstMayEnd = resolve;
    });
    order.push('first out');
  });
  const second = withLock(file, 'work', async () => order.push('second in'));
  firstMayEnd();
  await Promise.all([first, second]);
  assert.deepEqual(order, ['first in', 'first out', 'second in']);
  assert.equal(existsSync(file), false);
});

test('a lock is given back when the work fails', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  await assert.rejects(withLock(file, 'work', async () => Promise.reject(new Error('broken'))), /broken/);
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});

test('the lock of a process that is gone is taken over', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const gone = spawn(process.execPath, ['-e', '']);
  await once(gone, 'exit');
  writeFileSync(file, String(gone.pid));
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});
