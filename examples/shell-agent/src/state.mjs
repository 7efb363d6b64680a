/**
 * What survives a restart, in small files under one folder: the machine's id, and per session the agent's own id and the
 * last message it handled.
 */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const SAVE_MS = 1000;

/** Locks held by this very process, which a process id alone would not tell from those of a predecessor. */
const held = new Set();

export class StateStore {
  /** @param {{home: string, hub: string, namespace: string}} options ids are kept apart per hub and namespace */
  constructor({ home, hub, namespace }) {
    this.home = path.resolve(home);
    this.place = `${hub}\n${namespace}`;
    mkdirSync(path.join(this.home, 'sessions'), { recursive: true, mode: 0o700 });
  }

  /** Id of this machine for this hub and namespace: made at the first call, the same ever after. */
  machineId() {
    const file = path.join(this.home, `machine-${this.#key('')}.json`);
    const fresh = `${file}.${randomUUID()}`;
    writeFileSync(fresh, JSON.stringify({ machineId: randomUUID() }), { mode: 0o600 });
    try {
      // Of several processes that start at once, one makes the file; the others read it.
      linkSync(fresh, file);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    } finally {
      rmSync(fresh, { force: true });
    }
    return readJson(file).machineId;
  }

  /**
   * Opens the state of a session and keeps other processes from serving it at the same time.
   * @param {string} tag the session's tag
   * @throws {Error} when another process serves it
   */
  openSession(tag) {
    return new SessionState(path.join(this.home, 'sessions', this.#key(tag)));
  }

  /** Folder for the uploads of a session. */
  uploads(sessionId) {
    if (!/^[A-Za-z0-9_.-]{1,128}$/.test(sessionId) || /^\.+$/.test(sessionId)) {
      throw new Error(`The hub gave an id that cannot name a folder: ${sessionId}`);
    }
    return path.join(this.home, 'uploads', sessionId);
  }

  #key(tag) {
    return createHash('sha256').update(`${this.place}\n${tag}`).digest('hex').slice(0, 32);
  }
}

class SessionState {
  constructor(base) {
    this.file = `${base}.json`;
    this.lock = `${base}.lock`;
    this.#acquire();
    const { agentId, sessionId, lastSeq } = readJson(this.file);
    this.agentId = agentId ?? randomUUID();
    this.sessionId = sessionId;
    this.lastSeq = lastSeq;
  }

  /**
   * Ties the state to the hub's session.
   * @param {string} sessionId
   * @param {number} currentSeq the session's highest seq, where an agent without a past starts
   */
  attach(sessionId, currentSeq) {
    // A session that was deleted and made anew under the same tag has a history of its own.
    if (this.sessionId !== sessionId || typeof this.lastSeq !== 'number') this.lastSeq = currentSeq;
    this.sessionId = sessionId;
    this.#save();
  }

  /**
   * Notes that the message of this seq needs no more work.
   * @param {number} seq
   * @param {boolean} [minor] nothing would go wrong if it came again: written a little later, with others
   */
  handled(seq, minor = false) {
    if (seq <= this.lastSeq) return;
    this.lastSeq = seq;
    if (!minor) this.#save();
    else this.later ??= setTimeout(() => this.#saveIfPossible(), SAVE_MS);
  }

  release() {
    if (this.later) this.#saveIfPossible();
    held.delete(this.lock);
    rmSync(this.lock, { force: true });
  }

  /** For what may be lost: the messages would only be looked at again. */
  #saveIfPossible() {
    try {
      this.#save();
    } catch {
      // The disk is full or the folder is gone; the next message that matters reports it.
    }
  }

  #save() {
    clearTimeout(this.later);
    this.later = null;
    const text = JSON.stringify({ agentId: this.agentId, sessionId: this.sessionId, lastSeq: this.lastSeq });
    const fresh = `${this.file}.${process.pid}`;
    writeFileSync(fresh, text, { mode: 0o600 });
    renameSync(fresh, this.file);
  }

  #acquire() {
    const mine = JSON.stringify({ pid: process.pid, born: bornAt(process.pid) });
    for (let tries = 0; tries < 3; tries += 1) {
      try {
        writeFileSync(this.lock, mine, { flag: 'wx', mode: 0o600 });
        held.add(this.lock);
        return;
      } catch (error) {
        if (error.code !== 'EEXIST') throw error;
      }
      const { pid, born } = readJson(this.lock);
      const alive = pid === process.pid ? held.has(this.lock) : isRunning(pid, born);
      if (alive) {
        throw new Error(
          `Process ${pid} already serves this session. Give another --tag for a session of its own` +
            ` (or remove ${this.lock} if that process is something else).`,
        );
      }
      rmSync(this.lock, { force: true });
    }
    throw new Error(`Cannot lock ${this.lock}.`);
  }
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {};
  } catch {
    // Not there, or cut off by a crash: start anew.
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
