// Lock files: one set-up, build or hub per folder, across processes.

import { spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_AGAIN_MS = 250;

/** @type {Set<Lock>} the locks that this process holds */
const held = new Set();
process.once('exit', () => held.forEach((lock) => lock.release()));

/**
 * Adds processes to every held lock, because they may outlive this process if it is killed.
 * @param {number[]} pids
 */
export function holdLocksFor(pids) {
  for (const lock of held) lock.addProcesses(pids);
}

/** How long another process may take to clear a lock away whose holder is gone. */
const CLEARING_MS = 20;

/**
 * A process, told from a later one that the system gives the same number.
 * @typedef {object} Process
 * @property {number} pid
 * @property {string} born when it started, as the system writes it; empty where that is not known
 */

/**
 * What stands in a lock file.
 * @typedef {object} Holder
 * @property {string} id another one each time the lock is taken
 * @property {Process[]} processes the lock is held as long as one of them runs; who took it stands first
 * @property {Record<string, string>} details what the holder tells those who find the lock held
 */

/**
 * A lock that this process holds.
 * @typedef {object} Lock
 * @property {(pids: number[]) => void} addProcesses holds it also for processes that may outlive this one
 * @property {(details: Record<string, string>) => void} describe changes what is told to those who find the lock held
 * @property {() => void} release
 */

/**
 * Runs `work` while holding a lock file. Waits for another process that holds it; the lock of a process
 * that is gone is taken over.
 * @template T
 * @param {string} file
 * @param {string} what named while waiting, such as `set-up`
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(file, what, work) {
  let told = false;
  for (;;) {
    const { lock, pid } = await tryLock(file);
    if (lock) {
      try {
        return await work();
      } finally {
        lock.release();
      }
    }
    if (!told) {
      console.log(`  Process ${pid} is at the ${what} in this folder. Waiting until it has finished …`);
      console.log(`  (If no such process runs, delete ${file}.)`);
    }
    told = true;
    await sleep(LOOK_AGAIN_MS);
  }
}

/**
 * Takes a lock, or tells who holds it. It is given back when the process ends, if not before; the lock of a
 * process that is gone is taken over.
 * @param {string} file
 * @param {Record<string, string>} [details] told to those who find the lock held
 * @returns {Promise<{lock: Lock} | {lock?: undefined, pid: number, details: Record<string, string>, ownerIsGone: boolean}>}
 *   `ownerIsGone`: who took it is gone, and what that one has left behind holds it
 */
export async function tryLock(file, details = {}) {
  mkdirSync(path.dirname(file), { recursive: true });
  const holder = { id: randomUUID(), processes: [processOf(process.pid)], details };
  while (!create(file, holder)) {
    const text = read(file);
    // It was given back just now.
    if (text === undefined) continue;
    const other = parse(text);
    const living = other.processes.findIndex(isAlive);
    if (living !== -1) return { pid: other.processes[living].pid, details: other.details, ownerIsGone: living > 0 };
    if (!(await clear(file, text))) await sleep(CLEARING_MS);
  }
  return { lock: lockOf(file, holder) };
}

/**
 * @param {string} file
 * @param {Holder} holder
 * @returns {Lock}
 */
function lockOf(file, holder) {
  const release = () => {
    held.delete(lock);
    // Whoever deleted the file by hand may have made room for another.
    if (parse(read(file) ?? '').id === holder.id) rmSync(file, { force: true });
  };
  const rewrite = () => {
    // If the file was deleted by hand, another process may hold the lock now.
    if (parse(read(file) ?? '').id === holder.id) renameSync(writtenBeside(file, holder), file);
  };
  const lock = {
    addProcesses(pids) {
      const [taker, ...others] = holder.processes;
      holder.processes = [taker, ...others.filter(isAlive), ...pids.map(processOf)];
      rewrite();
    },
    describe(details) {
      holder.details = details;
      rewrite();
    },
    release,
  };
  held.add(lock);
  return lock;
}

/**
 * Makes the lock file, unless there is one. It is linked in place when it is written: nobody ever finds a lock
 * that does not say yet whose it is.
 * @param {string} file
 * @param {Holder} holder
 */
function create(file, holder) {
  const whole = writtenBeside(file, holder);
  try {
    linkSync(whole, file);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(whole);
  }
}

/**
 * @param {string} file
 * @param {Holder} holder
 */
function writtenBeside(file, holder) {
  const whole = `${file}.${randomUUID()}`;
  writeFileSync(whole, JSON.stringify(holder));
  return whole;
}

/**
 * Removes a lock whose holder is gone. Two that find it must not both remove it, for the second would remove the lock
 * that the first has taken meanwhile: so each needs a claim on exactly this lock, and looks again once it has it.
 * @param {string} file
 * @param {string} text what stood in it
 * @returns {Promise<boolean>} whether it is gone; else another process is at it
 */
async function clear(file, text) {
  const { lock: claim } = await tryLock(`${file}.${createHash('sha256').update(text).digest('hex').slice(0, 16)}`);
  if (!claim) return false;
  try {
    if (read(file) === text) rmSync(file, { force: true });
    return true;
  } finally {
    claim.release();
  }
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * @param {string} text
 * @returns {Holder} one without processes when the file was damaged
 */
function parse(text) {
  try {
    const { id, processes, details } = JSON.parse(text);
    return { id, processes: processes.filter(({ pid }) => Number.isInteger(pid) && pid > 0), details: details ?? {} };
  } catch {
    return { id: '', processes: [], details: {} };
  }
}

/** Whether a process still runs, and is not a later one with its number. @param {Process} one */
function isAlive({ pid, born }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  const found = bornAt(pid);
  return !born || !found || born === found;
}

/**
 * @param {number} pid of a process that runs
 * @returns {Process}
 */
function processOf(pid) {
  return { pid, born: bornAt(pid) };
}

/** When a process started, as Linux shows it, or `ps` on macOS; else empty. @param {number} pid */
function bornAt(pid) {
  if (process.platform === 'darwin') {
    const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
    return spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { env, encoding: 'utf8' }).stdout?.trim() ?? '';
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
