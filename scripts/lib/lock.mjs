// Lock files: at most one set-up, build or hub runs per folder. A lock lists process ids with their start times; it is held
// while one of these processes runs. The lock of processes that no longer run is stale, and is removed.

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspectProcess, isRunning } from './processes.mjs';

const POLL_MS = 250;

/** @type {Set<Lock>} the locks that this process holds */
const heldLocks = new Set();
process.once('exit', () => heldLocks.forEach((lock) => lock.release()));

/**
 * Adds processes to every held lock: they may outlive this process if it is killed.
 * @param {number[]} pids
 */
export function holdLocksFor(pids) {
  for (const lock of heldLocks) lock.addProcesses(pids);
}

/** The pause before another attempt, while another process removes a stale lock. */
const REMOVAL_MS = 20;

/**
 * A process. Process ids are reused, so the start time is part of its identity.
 * @typedef {object} Process
 * @property {number} pid
 * @property {string} startTime in the system's format; empty where it is not available
 */

/**
 * The content of a lock file.
 * @typedef {object} Holder
 * @property {string} id unique per acquisition
 * @property {Process[]} processes the owner first
 * @property {Record<string, string>} details for processes that find the lock held
 */

/**
 * A lock that this process holds.
 * @typedef {object} Lock
 * @property {(pids: number[]) => void} addProcesses keeps the lock held while these processes run
 * @property {(details: Record<string, string>) => void} setDetails
 * @property {() => void} release
 */

/**
 * The holder of a lock. `ownerHasExited`: only processes added by the owner still hold it.
 * @typedef {{lock?: undefined, pid: number, details: Record<string, string>, ownerHasExited: boolean}} Held
 */

/**
 * Waits until a lock file is free, and runs `work` while holding it.
 * @template T
 * @param {string} file
 * @param {string} what the work, for the message while waiting, such as `set-up`
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(file, what, work) {
  let hasPrinted = false;
  for (;;) {
    const { lock, pid } = await tryLock(file);
    if (lock) {
      try {
        return await work();
      } finally {
        lock.release();
      }
    }
    if (!hasPrinted) {
      console.log(`  Waiting for process ${pid}, which runs the ${what} in this folder …`);
      console.log(`  (If process ${pid} is something else, delete ${file}.)`);
    }
    hasPrinted = true;
    await sleep(POLL_MS);
  }
}

/**
 * Acquires a lock, or returns its holder. It is released at the latest when this process exits.
 * @param {string} file
 * @param {Record<string, string>} [details] for processes that find the lock held
 * @returns {Promise<{lock: Lock, pid?: undefined, details?: undefined, ownerHasExited?: undefined} | Held>}
 */
export async function tryLock(file, details = {}) {
  mkdirSync(path.dirname(file), { recursive: true });
  const holder = { id: randomUUID(), processes: [processOf(process.pid)], details };
  while (!create(file, holder)) {
    const text = read(file);
    // The holder has released the lock meanwhile.
    if (text === undefined) continue;
    const other = parse(text);
    const running = other.processes.findIndex(holds);
    if (running !== -1) return { pid: other.processes[running].pid, details: other.details, ownerHasExited: running > 0 };
    if (!(await removeStale(file, text))) await sleep(REMOVAL_MS);
  }
  return { lock: lockOf(file, holder) };
}

/**
 * @param {string} file
 * @param {Holder} holder
 * @returns {Lock}
 */
function lockOf(file, holder) {
  // If a user deleted the file, another process may hold the lock.
  const isOwn = () => parse(read(file) ?? '').id === holder.id;
  const release = () => {
    heldLocks.delete(lock);
    if (isOwn()) rmSync(file, { force: true });
  };
  const rewrite = () => {
    if (isOwn()) renameSync(writeTemporary(file, holder), file);
  };
  const lock = {
    addProcesses(pids) {
      const [owner, ...others] = holder.processes;
      holder.processes = [owner, ...others.filter(holds), ...pids.map(processOf)];
      rewrite();
    },
    setDetails(details) {
      holder.details = details;
      rewrite();
    },
    release,
  };
  heldLocks.add(lock);
  return lock;
}

/**
 * Creates the lock file atomically with its content; false when it exists.
 * @param {string} file
 * @param {Holder} holder
 */
function create(file, holder) {
  const temporary = writeTemporary(file, holder);
  try {
    linkSync(temporary, file);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(temporary);
  }
}

/**
 * @param {string} file
 * @param {Holder} holder
 * @returns {string} the path of a new file with the content, in the same folder
 */
function writeTemporary(file, holder) {
  const temporary = `${file}.${randomUUID()}`;
  writeFileSync(temporary, JSON.stringify(holder));
  return temporary;
}

/**
 * Removes a stale lock. Two processes may find the same stale lock, and the slower one must not remove the lock that the
 * faster one has acquired meanwhile. So each first locks a file named after the stale content (the claim), and then removes
 * the stale lock only if its content is unchanged.
 * @param {string} file
 * @param {string} text the content of the stale lock
 * @returns {Promise<boolean>} false when another process is removing it
 */
async function removeStale(file, text) {
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
 * @returns {Holder} without processes if the file is damaged
 */
function parse(text) {
  try {
    const { id, processes, details } = JSON.parse(text);
    return { id, processes: processes.filter(({ pid }) => Number.isInteger(pid) && pid > 0), details: details ?? {} };
  } catch {
    return { id: '', processes: [], details: {} };
  }
}

/** Whether a process that a lock lists still holds it. @param {Process} process */
const holds = ({ pid, startTime }) => isRunning(pid, startTime);

/**
 * @param {number} pid of a running process
 * @returns {Process}
 */
function processOf(pid) {
  return { pid, startTime: inspectProcess(pid).startTime ?? '' };
}
