// Locks: held by one at a time, and by nobody who is gone.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { tryLock, withLock } from '../lib/lock.mjs';

const LOCK_MODULE = JSON.stringify(new URL('../lib/lock.mjs', import.meta.url).href);

/** @param {import('node:test').TestContext} t */
function temporaryFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-scripts-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** A lock file as a process leaves it that is killed. @param {string} file */
function leaveBehind(file) {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(file, JSON.stringify({ id: 'left behind', processes: [{ pid, born: '' }], details: {} }));
}

/** What stands in a file; false when it is gone. @param {string} file */
function contentOf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return false;
    throw error;
  }
}

/**
 * A Node process that runs `code`, in which `lock.mjs` is imported as `lock` and `file` is the lock file.
 * @param {import('node:test').TestContext} t
 * @param {string} file
 * @param {string} code
 */
function another(t, file, code) {
  const text = `const lock = await import(${LOCK_MODULE}); const file = ${JSON.stringify(file)}; ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

test('a lock is held by one at a time and given back', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const order = [];
  const gate = new EventEmitter();
  const first = withLock(file, 'work', async () => {
    order.push('first in');
    gate.emit('in');
    await once(gate, 'open');
    order.push('first out');
  });
  await once(gate, 'in');
  const second = withLock(file, 'work', async () => order.push('second in'));
  gate.emit('open');
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
  leaveBehind(file);
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});

test('a lock file without a holder, as a power cut leaves it, is taken over', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  for (const text of ['', '{"id":', 'null', '{"processes":"1"}', '{"processes":[null]}']) {
    writeFileSync(file, text);
    assert.equal(await withLock(file, 'work', async () => 'done'), 'done', text);
  }
});

test('who finds a lock held hears at once by whom', async (t) => {
  const folder = temporaryFolder(t);
  const file = path.join(folder, 'lock');
  const code = `await lock.tryLock(file, { address: 'http://127.0.0.1:8787' }); console.log('held'); process.stdin.resume();`;
  const holder = another(t, file, code);
  await once(holder.stdout, 'data');
  assert.deepEqual(await tryLock(file), { pid: holder.pid, details: { address: 'http://127.0.0.1:8787' }, ownerIsGone: false });

  holder.stdin.end();
  await once(holder, 'exit');
  const { lock } = await tryLock(file);
  lock.release();
  assert.deepEqual(readdirSync(folder), []);
});

test('a lock holds on for what its holder has started and left behind', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const holder = another(t, file, `const { lock: held } = await lock.tryLock(file); held.addProcesses([${process.pid}]); process.kill(process.pid, 'SIGKILL');`);
  await once(holder, 'exit');
  const { pid, ownerIsGone } = await tryLock(file);
  assert.deepEqual([pid, ownerIsGone], [process.pid, true]);
});

test('a lock whose process id has gone to another process since is taken over', { skip: process.platform === 'win32' }, async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  writeFileSync(file, JSON.stringify({ id: 'before a restart', processes: [{ pid: process.pid, born: 'long ago' }], details: {} }));
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});

test('a lock that was deleted by hand and taken by another is left to that one', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const { lock: mine } = await tryLock(file);
  rmSync(file);
  const { lock: theirs } = await tryLock(file);
  mine.release();
  assert.equal(existsSync(file), true);
  theirs.release();
  assert.equal(existsSync(file), false);
});

test('a lock says whose it is from the moment it is there', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
  const holder = another(t, file, `for (let turn = 0; turn < 2000; turn += 1) (await lock.tryLock(file)).lock.release();`);
  const ended = once(holder, 'exit');
  while (holder.exitCode === null && holder.signalCode === null) {
    for (let look = 0; look < 100; look += 1) {
      const text = contentOf(file);
      if (text !== false) assert.deepEqual(JSON.parse(text).processes.map(({ pid }) => pid), [holder.pid]);
    }
    await new Promise(setImmediate);
  }
  assert.deepEqual(await ended, [0, null]);
});

test('of many that rush for the lock of a process that is gone one has it at a time', async (t) => {
  const folder = temporaryFolder(t);
  const file = path.join(folder, 'lock');
  const trace = path.join(folder, 'trace');
  writeFileSync(trace, '');
  leaveBehind(file);
  // Each holder leaves the lock as if it had been killed, so that every turn begins with clearing it away.
  const contender = `
    import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
    for (let turn = 0; turn < 300; ) {
      const { lock: held } = await lock.tryLock(file);
      if (!held) continue;
      appendFileSync(${JSON.stringify(trace)}, 'in ' + process.pid + '\\n');
      await new Promise(setImmediate);
      appendFileSync(${JSON.stringify(trace)}, 'out ' + process.pid + '\\n');
      writeFileSync(file, JSON.stringify({ id: process.pid + ' ' + turn, processes: [], details: {} }));
      held.release();
      turn += 1;
    }`;
  const contenders = [1, 2, 3].map(() => another(t, file, contender));
  for (const [code] of await Promise.all(contenders.map((child) => once(child, 'exit')))) assert.equal(code, 0);
  const lines = readFileSync(trace, 'utf8').trim().split('\n');
  assert.equal(lines.length, 3 * 300 * 2);
  for (let i = 0; i < lines.length; i += 2) assert.equal(lines[i + 1], lines[i].replace('in', 'out'), `line ${i}`);
});
