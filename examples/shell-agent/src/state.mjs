/**
 * What survives a restart, in small files under one folder: the machine's id of each served directory; and of each
 * session the agent's own id, the last message it handled, the calls that it began and may not have closed, and what its
 * shell keeps.
 */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { HeldError, acquire } from './lock.mjs';
import { localIds } from './records.mjs';

const SAVE_MS = 1000;

/** @typedef {{id: string, name: string, input: object}} Call a call of a tool, as it is said in the conversation */

export class StateStore {
  /** @param {{home: string, hub: string, namespace: string}} options ids are kept apart per hub and namespace */
  constructor({ home, hub, namespace }) {
    this.home = path.resolve(home);
    this.place = `${hub}\n${namespace}`;
    for (const folder of ['sessions', 'machines']) {
      mkdirSync(path.join(this.home, folder), { recursive: true, mode: 0o700 });
    }
  }

  /**
   * Id of the machine that serves a directory to this hub and namespace: made at the first call, the same ever after.
   * @param {string} root the directory, resolved
   */
  machineId(root) {
    const file = path.join(this.home, 'machines', `${this.#key(root)}.json`);
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
   * Keeps other processes of this home from being the same machine at the same time.
   * @param {string} id
   * @returns {() => void} lets go of it
   * @throws {HeldError} when another process is this machine
   */
  lockMachine(id) {
    return acquire(path.join(this.home, 'machines', `${this.#key(id)}.lock`));
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

  #key(name) {
    return createHash('sha256').update(`${this.place}\n${name}`).digest('hex').slice(0, 32);
  }
}

class SessionState {
  #unlock;

  constructor(base) {
    this.file = `${base}.json`;
    this.lock = `${base}.lock`;
    /** Where a command leaves what its shell hands on to the next one. */
    this.shellFile = `${base}.shell`;
    this.#unlock = this.#acquire();
    const { agentId, sessionId, lastSeq, calls, shell } = readJson(this.file);
    this.agentId = agentId ?? randomUUID();
    this.sessionId = sessionId;
    this.lastSeq = lastSeq;
    /** @type {Call[]} */
    this.calls = calls ?? [];
    this.shell = shell;
  }

  /**
   * Ties the state to the hub's session.
   * @param {string} sessionId
   * @param {number} currentSeq the session's highest seq, where an agent without a past starts
   */
  attach(sessionId, currentSeq) {
    // A session that was deleted and made anew under the same tag has a history of its own.
    if (this.sessionId !== sessionId || typeof this.lastSeq !== 'number') {
      this.lastSeq = currentSeq;
      this.calls = [];
      this.shell = undefined;
    }
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

  /**
   * Notes that a call begins: its message must not be worked on again, and the call is to be closed whatever happens.
   * @param {Call} call
   * @param {number | undefined} seq the message's, unless it was typed at the terminal
   */
  began(call, seq = 0) {
    this.lastSeq = Math.max(this.lastSeq, seq);
    this.calls.push(call);
    this.#save();
  }

  /** The hub has stored the message of this local id: when it is the last one of a call, that call is closed. */
  stored(localId) {
    const open = this.calls.filter(({ id }) => localIds(id).ready !== localId);
    if (open.length === this.calls.length) return;
    this.calls = open;
    this.#saveIfPossible();
  }

  /** Notes what the shell keeps. @param {import('./shell-state.mjs').Kept} shell */
  keepShell(shell) {
    this.shell = shell;
    this.#save();
  }

  release() {
    if (this.later) this.#saveIfPossible();
    this.#unlock();
  }

  /** For what may be lost: it would only be looked at, or said, again. */
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
    const { agentId, sessionId, lastSeq, calls, shell } = this;
    const fresh = `${this.file}.${process.pid}`;
    writeFileSync(fresh, JSON.stringify({ agentId, sessionId, lastSeq, calls, shell }), { mode: 0o600 });
    renameSync(fresh, this.file);
  }

  #acquire() {
    try {
      return acquire(this.lock);
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      throw new Error(
        `Process ${error.pid} already serves this session. Give another --tag for a session of its own` +
          ` (or remove ${this.lock} if that process is something else).`,
      );
    }
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
