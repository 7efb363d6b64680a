/** Locks between processes: a small file that names its holder. A holder that died does not count. */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

/** Locks held by this very process, which a process id alone would not tell from those of a predecessor. */
const held = new Set();

/** Somebody else holds the lock. */
export class HeldError extends Error {
  constructor(file, pid) {
    super(`Process ${pid} holds ${file}.`);
    this.file = file;
    this.pid = pid;
  }
}

/**
 * Takes a lock.
 * @param {string} file
 * @returns {() => void} gives it back
 * @throws {HeldError} when a living process holds it
 */
export function acquire(file) {
  const holder = JSON.stringify({ pid: process.pid, born: bornAt(process.pid) });
  for (let tries = 0; tries < 100; tries += 1) {
    if (put(file, holder)) {
      held.add(file);
      let mine = true;
      return () => {
        if (!mine) return;
        mine = false;
        held.delete(file);
        rmSync(file, { force: true });
      };
    }
    const found = read(file);
    const { pid, born } = parse(found);
    if (pid === process.pid ? held.has(file) : isRunning(pid, born)) throw new HeldError(file, pid);
    if (found !== undefined) discard(file, found);
  }
  throw new Error(`Cannot lock ${file}.`);
}

/** Makes the file with all of its text at once, so that nobody reads a part of it; false when it is there already. */
function put(file, text) {
  const fresh = `${file}.${randomUUID()}`;
  writeFileSync(fresh, text, { mode: 0o600 });
  try {
    linkSync(fresh, file);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(fresh, { force: true });
  }
}

/**
 * Takes a dead holder's file away. Of two that find it only one may, and it looks again first: the other would take away
 * the file of somebody who was faster.
 */
function discard(file, stale) {
  const claim = `${file}.${createHash('sha256').update(stale).digest('hex').slice(0, 16)}`;
  if (!put(claim, String(process.pid))) return;
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

function isRunning(pid, born) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  // A process id is used again; the time of birth tells the two apart where the system shows it.
  return born === '' || bornAt(pid) === born;
}

/** Start time of a process as Linux shows it, else an empty text. */
function bornAt(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
