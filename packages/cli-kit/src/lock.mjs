/**
 * Lock files: at most one running process holds a lock. The file has the holder's process id and start time; the lock of a
 * process that no longer runs is stale, and is removed.
 */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

/** Locks held by this process. A file with this process id that is not among them is stale: the id was reused. */
const heldFiles = new Set();

/** Another holder has the lock. */
export class LockHeldError extends Error {
  constructor(file, pid) {
    super(`Process ${pid} holds the lock ${file}.`);
    this.file = file;
    this.pid = pid;
  }
}

/**
 * @param {string} file
 * @returns {() => void} releases the lock
 * @throws {LockHeldError} when a running process holds it
 */
export function acquire(file) {
  const holder = JSON.stringify({ pid: process.pid, startTime: readStat(process.pid).startTime });
  for (let tries = 0; tries < 100; tries += 1) {
    if (createFile(file, holder)) {
      heldFiles.add(file);
      let isReleased = false;
      return () => {
        if (isReleased) return;
        isReleased = true;
        heldFiles.delete(file);
        rmSync(file, { force: true });
      };
    }
    const found = read(file);
    const { pid, startTime } = parse(found);
    if (pid === process.pid ? heldFiles.has(file) : isRunning(pid, startTime)) throw new LockHeldError(file, pid);
    removeStale(file, found);
  }
  throw new Error(`Cannot lock ${file}: other processes keep changing it.`);
}

/** Creates the file atomically with its content; false when it exists. */
function createFile(file, text) {
  const temporary = `${file}.${randomUUID()}`;
  writeFileSync(temporary, text, { mode: 0o600 });
  try {
    linkSync(temporary, file);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/**
 * Removes a stale lock. Two processes may find the same stale lock, and the slower one must not remove the lock that the
 * faster one has acquired meanwhile. So each first creates a file named after the stale content (the claim), and then removes
 * the stale lock only if its content is unchanged.
 */
function removeStale(file, stale) {
  const claim = `${file}.${createHash('sha256').update(stale).digest('hex').slice(0, 16)}`;
  if (!createFile(claim, String(process.pid))) return;
  try {
    if (read(file) === stale) rmSync(file, { force: true });
  } finally {
    rmSync(claim, { force: true });
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

function isRunning(pid, startTime) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  const current = readStat(pid);
  // Process ids are reused; the start time distinguishes the processes, where it is known.
  return !current.isZombie && (startTime === '' || current.startTime === startTime);
}

/**
 * @returns {{isZombie: boolean, startTime: string}} from /proc/PID/stat on Linux. `isZombie`: the process has ended and its
 *   parent has not reaped it; in a container without an init process, it stays listed. `startTime`: in clock ticks since boot;
 *   empty on other systems.
 */
function readStat(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Fields 3, 20 and 22 of proc(5). With other threads, only the first one has ended.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { isZombie: 'ZX'.includes(fields[0]) && Number(fields[17]) <= 1, startTime: fields[19] ?? '' };
  } catch {
    return { isZombie: false, startTime: '' };
  }
}
