/** Locks: one holder at a time, and the removal of stale locks. */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { THIS_HOST, acquire, tryLock } from '../src/lock.mjs';
import { inspectProcess, isRunning } from '../src/system-processes.mjs';
import { tempDir } from './support/repository.mjs';
import { pluck } from './support/pluck.mjs';

const LOCK_MODULE = JSON.stringify(new URL('../src/lock.mjs', import.meta.url).href);

/** Writes the lock file of a process that no longer runs. @param {string} file */
function writeStaleLock(file) {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(file, JSON.stringify({ id: 'stale', processes: [{ pid, startTime: '' }], details: {} }));
}

/** The content of a file; undefined if it does not exist. @param {string} file */
function readIfExists(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Starts a Node process that runs `code`, in which `lock` is the module and `file` the lock file.
 * @param {import('node:test').TestContext} t
 * @param {string} file
 * @param {string} code
 */
function startProcess(t, file, code) {
  const text = `const lock = await import(${LOCK_MODULE}); const file = ${JSON.stringify(file)}; ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

/**
 * Runs a Node process that ends but is not reaped by its parent, as in a container without an init process.
 * @param {import('node:test').TestContext} t
 * @param {string} code of the process
 * @returns {Promise<number>} its process id, once it has ended
 */
async function startZombie(t, code) {
  // The shell replaces itself by a program that does not reap processes.
  const script = '"$@" & echo $!; exec sleep 300';
  const parent = spawn('/bin/sh', ['-c', script, 'sh', process.execPath, '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => parent.kill('SIGKILL'));
  const pid = String((await once(parent.stdout, 'data'))[0]).trim();
  // Polls, because no event tells this process about the end of another process's child. All threads must have ended.
  const hasEnded = () => /^Z\S*\s+[01]$/.test(spawnSync('ps', ['-o', 'stat=,nlwp=', '-p', pid], { encoding: 'utf8' }).stdout.trim());
  while (!hasEnded()) await sleep(10);
  return Number(pid);
}

test('the lock of a process that no longer runs is removed', (t) => {
  const file = path.join(tempDir(t), 'lock');
  writeStaleLock(file);
  acquire(file)();
});

test('a damaged lock file, such as after a power cut, is removed', (t) => {
  const file = path.join(tempDir(t), 'lock');
  for (const text of ['', '{"id":', 'null', '{"processes":"1"}', '{"processes":[null]}']) {
    writeFileSync(file, text);
    acquire(file)();
  }
});

test('tryLock returns the holder of a held lock', async (t) => {
  const folder = tempDir(t);
  const file = path.join(folder, 'lock');
  const code = `lock.tryLock(file, { address: 'http://127.0.0.1:8787' }); console.log('held'); process.stdin.resume();`;
  const holder = startProcess(t, file, code);
  await once(holder.stdout, 'data');
  assert.deepEqual(tryLock(file), { pid: holder.pid, details: { address: 'http://127.0.0.1:8787' }, ownerHasExited: false });

  holder.stdin.end();
  await once(holder, 'exit');
  const { lock } = tryLock(file);
  lock.release();
  assert.deepEqual(readdirSync(folder), []);
});

test('a lock stays held while a process that its owner added runs', async (t) => {
  const file = path.join(tempDir(t), 'lock');
  const holder = startProcess(
    t,
    file,
    `const { lock: held } = lock.tryLock(file); held.addProcesses([${process.pid}]); process.kill(process.pid, 'SIGKILL');`,
  );
  await once(holder, 'exit');
  const { pid, ownerHasExited } = tryLock(file);
  assert.deepEqual([pid, ownerHasExited], [process.pid, true]);
});

test('a lock whose process id was reused is removed', { skip: process.platform === 'win32' }, (t) => {
  const file = path.join(tempDir(t), 'lock');
  writeFileSync(file, JSON.stringify({ id: 'before a restart', processes: [{ pid: process.ppid, startTime: 'long ago' }], details: {} }));
  acquire(file)();
});

test('the lock of a killed process that its parent has not reaped is removed', { skip: process.platform === 'win32' }, async (t) => {
  const file = path.join(tempDir(t), 'lock');
  const code = `(await import(${LOCK_MODULE})).tryLock(${JSON.stringify(file)}); process.kill(process.pid, 'SIGKILL');`;
  const pid = await startZombie(t, code);
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).processes[0].pid, pid);
  const { lock } = tryLock(file);
  assert.ok(lock, 'the lock is held');
  lock.release();
  assert.equal(isRunning(pid), false);
});

test('releasing a lock whose file was deleted does not release the lock that was acquired afterwards', (t) => {
  const file = path.join(tempDir(t), 'lock');
  const { lock: first } = tryLock(file);
  rmSync(file);
  const { lock: second } = tryLock(file);
  first.release();
  assert.equal(existsSync(file), true);
  second.release();
  assert.equal(existsSync(file), false);
});

test('a lock file that names this process, which does not hold it, is removed', (t) => {
  const file = path.join(tempDir(t), 'lock');
  const unlock = acquire(file);
  const text = readFileSync(file);
  unlock();
  writeFileSync(file, text);
  acquire(file)();
});

test('a lock file always has its content', async (t) => {
  const file = path.join(tempDir(t), 'lock');
  const holder = startProcess(t, file, `for (let i = 0; i < 2000; i += 1) lock.tryLock(file).lock.release();`);
  const ended = once(holder, 'exit');
  while (holder.exitCode === null && holder.signalCode === null) {
    for (let i = 0; i < 100; i += 1) {
      const text = readIfExists(file);
      if (text !== undefined) assert.deepEqual(pluck(JSON.parse(text).processes, 'pid'), [holder.pid]);
    }
    await new Promise(setImmediate);
  }
  assert.deepEqual(await ended, [0, null]);
});

test('of several processes that find a stale lock, one at a time acquires it', async (t) => {
  const folder = tempDir(t);
  const file = path.join(folder, 'lock');
  const trace = path.join(folder, 'trace');
  writeFileSync(trace, '');
  writeStaleLock(file);
  // Each holder leaves a stale lock, so that each acquisition starts with its removal.
  const contender = `
    import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
    for (let rounds = 0; rounds < 300; ) {
      const { lock: held } = lock.tryLock(file);
      if (!held) continue;
      appendFileSync(${JSON.stringify(trace)}, 'in ' + process.pid + '\\n');
      await new Promise(setImmediate);
      appendFileSync(${JSON.stringify(trace)}, 'out ' + process.pid + '\\n');
      writeFileSync(file, JSON.stringify({ id: process.pid + ' ' + rounds, processes: [], details: {} }));
      held.release();
      rounds += 1;
    }`;
  const contenders = [1, 2, 3].map(() => startProcess(t, file, contender));
  for (const [code] of await Promise.all(contenders.map((child) => once(child, 'exit')))) assert.equal(code, 0);
  const lines = readFileSync(trace, 'utf8').trim().split('\n');
  assert.equal(lines.length, 3 * 300 * 2);
  for (let i = 0; i < lines.length; i += 2) assert.equal(lines[i + 1], lines[i].replace('in', 'out'), `line ${i}`);
});

test('earlier versions can read a lock, and their locks can be read: the owner is in `pid` and `startTime`', {
  skip: process.platform !== 'linux',
}, (t) => {
  const file = path.join(tempDir(t), 'lock');
  const unlock = acquire(file);
  const lockContent = JSON.parse(readFileSync(file, 'utf8'));
  assert.deepEqual([lockContent.pid, lockContent.startTime], [process.pid, inspectProcess(process.pid).startTime]);
  unlock();
  const parent = { pid: process.ppid, startTime: inspectProcess(process.ppid).startTime };
  writeFileSync(file, JSON.stringify(parent));
  assert.throws(() => acquire(file), { pid: process.ppid });
  writeFileSync(file, JSON.stringify({ ...parent, startTime: 'another time' }));
  acquire(file)();
});

test('a lock of another computer or container is held, although its process id is unknown here', {
  skip: process.platform !== 'linux',
}, (t) => {
  const file = path.join(tempDir(t), 'lock');
  const unlock = acquire(file);
  const own = JSON.parse(readFileSync(file, 'utf8'));
  unlock();
  writeStaleLock(file);
  const stale = JSON.parse(readFileSync(file, 'utf8'));
  const boot = 'another';
  const others = [{ name: 'desktop', boot }, { computer: 'another', boot }, { processes: 'pid:[1]' }, { computer: '', boot }];
  for (const other of others) {
    writeFileSync(file, JSON.stringify({ ...stale, host: { ...own.host, ...other } }));
    const { lock, pid, host } = tryLock(file);
    assert.deepEqual([lock, pid, host], [undefined, stale.processes[0].pid, other.name ?? own.host.name]);
    assert.throws(() => acquire(file), /^Error: Process \d+ of another computer or container \(host name .*\) holds the lock/);
  }
});

test('the lock of a process that no longer runs is removed, also if the host name has changed since', {
  skip: process.platform !== 'linux',
}, (t) => {
  const file = path.join(tempDir(t), 'lock');
  writeStaleLock(file);
  const stale = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify({ ...stale, host: { ...THIS_HOST, name: 'earlier-name' } }));
  acquire(file)();
});

test('the lock of a process that ran before a restart of this computer is removed', { skip: process.platform !== 'linux' }, (t) => {
  const file = path.join(tempDir(t), 'lock');
  const unlock = acquire(file);
  const own = JSON.parse(readFileSync(file, 'utf8'));
  unlock();
  // The process id and the start time are those of a running process.
  const processes = [{ pid: process.ppid, startTime: inspectProcess(process.ppid).startTime }];
  writeFileSync(file, JSON.stringify({ ...own, processes, host: { ...own.host, boot: 'earlier' } }));
  if (own.host.computer === '') assert.throws(() => acquire(file));
  else acquire(file)();
});
