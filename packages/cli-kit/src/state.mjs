/**
 * State that survives a restart, in small files: for each served directory the machine's id; for each session the agent's
 * id, the last handled message, the tool calls that may be incomplete, and a value of the agent.
 */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { LockHeldError, acquire } from './lock.mjs';
import { localIds } from './messages.mjs';

const SAVE_DELAY_MS = 1000;

/** @typedef {{id: string, name: string, input: object}} Call a tool call */

export class StateStore {
  /** @param {{home: string, hub: string, namespace: string}} options the state of each hub and namespace is separate */
  constructor({ home, hub, namespace }) {
    this.home = path.resolve(home);
    this.scope = `${hub}\n${namespace}`;
    for (const folder of ['sessions', 'machines']) {
      mkdirSync(path.join(this.home, folder), { recursive: true, mode: 0o700 });
    }
  }

  /**
   * Returns the id of the machine that serves a directory to this hub and namespace. Generates and stores it at the first call.
   * @param {string} root the directory, resolved
   */
  loadMachineId(root) {
    const file = path.join(this.home, 'machines', `${this.#key(root)}.json`);
    const temporary = `${file}.${randomUUID()}`;
    writeFileSync(temporary, JSON.stringify({ machineId: randomUUID() }), { mode: 0o600 });
    try {
      // Atomic: of several processes that start at once, one creates the file and the others read it.
      linkSync(temporary, file);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    } finally {
      rmSync(temporary, { force: true });
    }
    return readJson(file).machineId;
  }

  /**
   * Locks a machine, so that only one process at a time serves it.
   * @param {string} id
   * @returns {() => void} releases the lock
   * @throws {LockHeldError} when another process serves this machine
   */
  lockMachine(id) {
    return acquire(path.join(this.home, 'machines', `${this.#key(id)}.lock`));
  }

  /**
   * Returns the tag of the session that `--new` last started in place of the session with this tag; by default the same tag.
   * @param {string} tag
   * @param {{isNew: boolean}} options `isNew`: makes a new tag and stores it
   */
  resolveTag(tag, { isNew }) {
    const file = path.join(this.home, 'sessions', `${this.#key(tag)}.current`);
    if (isNew) writeFileSync(file, JSON.stringify({ tag: `${tag}#${randomUUID()}` }), { mode: 0o600 });
    return readJson(file).tag ?? tag;
  }

  /**
   * Opens and locks the state of a session.
   * @param {string} tag of the session
   * @throws {Error} when another process serves the session
   */
  openSession(tag) {
    return new SessionState(path.join(this.home, 'sessions', this.#key(tag)));
  }

  uploadFolder(sessionId) {
    if (!/^[A-Za-z0-9_.-]{1,128}$/.test(sessionId) || /^\.+$/.test(sessionId)) {
      throw new Error(`The hub sent a session id that cannot be a folder name: ${sessionId}`);
    }
    return path.join(this.home, 'uploads', sessionId);
  }

  #key(name) {
    return createHash('sha256').update(`${this.scope}\n${name}`).digest('hex').slice(0, 32);
  }
}

/** The state of one session. */
export class SessionState {
  #unlock;

  constructor(base) {
    this.base = base;
    this.file = `${base}.json`;
    this.lockFile = `${base}.lock`;
    this.#unlock = this.#acquire();
    const { agentId, sessionId, lastSeq, calls, saved } = readJson(this.file);
    this.agentId = agentId ?? randomUUID();
    this.sessionId = sessionId;
    this.lastSeq = lastSeq;
    /** @type {Call[]} */
    this.calls = calls ?? [];
    /** @type {any} the agent's own value */
    this.saved = saved;
  }

  /** The path of a file that the agent needs while it runs. */
  pathFor(name) {
    return `${this.base}.${name}`;
  }

  /**
   * Associates the state with the hub's session.
   * @param {string} sessionId
   * @param {number} currentSeq the session's highest seq; without earlier state, the agent handles messages after it
   */
  attach(sessionId, currentSeq) {
    // A session that was deleted and created again with the same tag has a new id and a new history.
    if (this.sessionId !== sessionId || typeof this.lastSeq !== 'number') {
      this.lastSeq = currentSeq;
      this.calls = [];
      this.saved = undefined;
    }
    this.sessionId = sessionId;
    this.#save();
  }

  /**
   * Records that all messages up to this seq are handled.
   * @param {number} seq
   * @param {boolean} [wasSkipped] whether handling the message again has no effect; if so, the write is delayed
   */
  markHandled(seq, wasSkipped = false) {
    if (seq <= this.lastSeq) return;
    this.lastSeq = seq;
    if (!wasSkipped) this.#save();
    else this.saveTimer ??= setTimeout(() => this.#trySave(), SAVE_DELAY_MS);
  }

  /**
   * Records a call that is about to start. After a crash, the next process does not handle its message again, and completes the call.
   * @param {Call} call
   * @param {number | undefined} seq of the message; none for a command typed at the terminal
   */
  recordCall(call, seq = 0) {
    this.lastSeq = Math.max(this.lastSeq, seq);
    this.calls.push(call);
    this.#save();
  }

  /** Removes the call whose last message has this local id. To be called when the hub has stored a message. */
  handleStored(localId) {
    const incomplete = this.calls.filter(({ id }) => localIds(id).ready !== localId);
    if (incomplete.length === this.calls.length) return;
    this.calls = incomplete;
    this.#trySave();
  }

  /** Replaces the agent's own value. @param {any} value of at most a few hundred KB: it is written with every message */
  save(value) {
    this.saved = value;
    this.#save();
  }

  /** Replaces the agent's id of the session. */
  setAgentId(id) {
    this.agentId = id;
    this.#save();
  }

  release() {
    if (this.saveTimer) this.#trySave();
    this.#unlock();
  }

  /** Saves, and ignores errors: for changes that can be lost without harm, because they are then repeated. */
  #trySave() {
    try {
      this.#save();
    } catch {
      // Such as a full disk: the next call of `#save` reports it.
    }
  }

  #save() {
    clearTimeout(this.saveTimer);
    this.saveTimer = null;
    const { agentId, sessionId, lastSeq, calls, saved } = this;
    const temporary = `${this.file}.${process.pid}`;
    writeFileSync(temporary, JSON.stringify({ agentId, sessionId, lastSeq, calls, saved }), { mode: 0o600 });
    renameSync(temporary, this.file);
  }

  #acquire() {
    try {
      return acquire(this.lockFile);
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      throw new Error(
        `Process ${error.pid} already serves this session. For another session, give another --tag` +
          ` (if that process is not an agent, delete ${this.lockFile}).`,
      );
    }
  }
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {};
  } catch {
    // Missing, or truncated by a crash: start with empty state.
    return {};
  }
}
