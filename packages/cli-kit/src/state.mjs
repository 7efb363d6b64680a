/**
 * State that survives a restart, in small files: the id of the installation; for each served directory the machine's id; for each session
 * the agent's id, the last handled message, what users changed about queued messages, the tool calls that may be incomplete, and a value
 * that the agent itself defines (`saved`).
 */

import { createHash, randomUUID } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { LockHeldError, acquire, nameHolder } from './lock.mjs';
import { localIds } from './messages.mjs';

const SAVE_DELAY_MS = 1000;

/**
 * The version of the stored state of a session. To be increased when an earlier version of this program must not serve the session, for
 * example because it would handle messages again.
 */
const STATE_VERSION = 1;

/** @typedef {{id: string, name: string, input: object}} Call a tool call */

/**
 * The state of the messages after `lastSeq`.
 * @typedef {object} StoredQueue
 * @property {number[]} handled the seqs of messages that are handled although an earlier message waits
 * @property {Record<number, string>} texts the texts of edited messages, by seq
 * @property {number[]} order the seqs of messages in the order in which they run, if a user has changed the order
 * @property {Record<number, {localId: string, note: object}>} sending the notes of messages that are being sent into a turn, by seq
 * @property {Record<string, object>} notes the messages about the queue that the hub may not have stored, by local id
 */

/** @returns {StoredQueue} */
const emptyQueue = () => ({ handled: [], texts: {}, order: [], sending: {}, notes: {} });

export class StateStore {
  /** @param {{home: string, hub: string, namespace: string}} options the state of each hub and namespace is separate */
  constructor({ home, hub, namespace }) {
    this.home = path.resolve(home);
    this.hub = hub;
    this.scope = `${hub}\n${namespace}`;
    for (const folder of ['sessions', 'machines']) {
      mkdirSync(path.join(this.home, folder), { recursive: true, mode: 0o700 });
    }
    /**
     * A random id of this folder, for every hub, namespace and directory. Two computers, or two users of one computer, have different ids.
     * @type {string}
     */
    this.installationId = loadOrCreate(path.join(this.home, 'installation.json'), 'installationId');
  }

  /**
   * Returns the id of the machine that serves a directory to this hub and namespace. Generates and stores the id at the first call.
   * @param {string} root the directory, resolved
   */
  loadMachineId(root) {
    return loadOrCreate(path.join(this.home, 'machines', `${this.#key(root)}.json`), 'machineId');
  }

  /**
   * Locks a machine, so that only one process at a time serves the machine.
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
   * @param {string} [sessionId] the hub's id of the session, to find its state under an earlier address of the hub
   * @throws {Error} when another process serves the session
   */
  openSession(tag, sessionId) {
    return new SessionState(this.#sessionBase(tag, sessionId), { tag, hub: this.hub });
  }

  /** Whether there is a state of the session with this tag at this hub. @param {string} tag */
  hasSession(tag) {
    return existsSync(`${this.#ownBase(tag)}.json`);
  }

  /**
   * Finds the states of sessions with this tag: the state for this address of the hub, else the states for other addresses, which may be
   * earlier addresses of this hub.
   * @param {string} tag
   */
  findSessions(tag) {
    const states = readSessionStates(this.home);
    const own = states.filter(({ base }) => base === this.#ownBase(tag));
    return own.length > 0 ? own : states.filter((state) => state.tag === tag).sort((a, b) => b.changedAt - a.changedAt);
  }

  /**
   * Reads the states of the sessions that this computer has served for this hub and namespace.
   * A state without a tag was written by an earlier version of this program, and may belong to another hub or namespace.
   */
  listSessions() {
    return readSessionStates(this.home).filter(({ base, tag }) => tag === undefined || path.basename(base) === this.#key(tag));
  }

  /**
   * Reads the state of a session, which another process may serve.
   * @param {string} tag of the session
   * @param {string} sessionId the hub's id of the session
   * @returns {{lastSeq?: number, queue?: StoredQueue, saved?: any}} empty if the session has no state on this machine
   */
  readSession(tag, sessionId) {
    return readJson(`${this.#sessionBase(tag, sessionId)}.json`);
  }

  uploadFolder(sessionId) {
    if (!/^[A-Za-z0-9_.-]{1,128}$/.test(sessionId) || /^\.+$/.test(sessionId)) {
      throw new Error(`The hub sent a session id that cannot be a folder name: ${sessionId}`);
    }
    return path.join(this.home, 'uploads', sessionId);
  }

  #sessionBase(tag, sessionId) {
    const own = this.#ownBase(tag);
    if (sessionId === undefined || this.hasSession(tag)) return own;
    return readSessionStates(this.home).find((state) => state.sessionId === sessionId)?.base ?? own;
  }

  #ownBase(tag) {
    return path.join(this.home, 'sessions', this.#key(tag));
  }

  #key(name) {
    return createHash('sha256').update(`${this.scope}\n${name}`).digest('hex').slice(0, 32);
  }
}

/**
 * Reads the states of all sessions that this computer has served, for any hub and namespace.
 * @param {string} home the folder of the state
 * @returns {{base: string, changedAt: number, tag?: string, hub?: string, agentId: string,
 *   sessionId: string, saved: any}[]} `base`: the path of the state's files without a suffix; `changedAt`: in milliseconds;
 *   `tag` and `hub`: missing in states of earlier versions
 */
export function readSessionStates(home) {
  const folder = path.join(home, 'sessions');
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names
    .map((name) => path.join(folder, name))
    .filter((file) => /^[^.]+\.json$/.test(path.basename(file)))
    .map((file) => ({ base: file.slice(0, -'.json'.length), changedAt: statSync(file).mtimeMs, .../** @type {any} */ (readJson(file)) }))
    .filter(({ sessionId }) => sessionId !== undefined);
}

/** The state of one session. */
export class SessionState {
  #unlock;

  /**
   * @param {string} base the path of the state's files without a suffix
   * @param {{tag?: string, hub?: string}} [names] of the session
   */
  constructor(base, { tag, hub } = {}) {
    this.base = base;
    this.tag = tag;
    this.hub = hub;
    this.file = `${base}.json`;
    this.lockFile = `${base}.lock`;
    this.#unlock = this.#acquire();
    const { version = STATE_VERSION, agentId, sessionId, lastSeq, queue, calls, saved } = readJson(this.file);
    if (version > STATE_VERSION) {
      this.#unlock();
      throw new Error('A newer version of this program has served this session. Update this program to continue the session.');
    }
    this.agentId = agentId ?? randomUUID();
    this.sessionId = sessionId;
    /** The session's highest seq when this process opened the session. */
    this.openedSeq = 0;
    /** All messages up to this seq are handled. @type {number} */
    this.lastSeq = lastSeq;
    /** @type {StoredQueue} */
    this.queue = { ...emptyQueue(), ...queue };
    this.#endSending();
    /** @type {Call[]} */
    this.calls = calls ?? [];
    /** @type {any} the value that the agent defines */
    this.saved = saved;
  }

  /** The path of a file that the agent needs while it runs. */
  pathFor(name) {
    return `${this.base}.${name}`;
  }

  /**
   * Associates the state with the hub's session.
   * @param {string} sessionId
   * @param {number} currentSeq the session's highest seq. If there is no earlier state, the agent handles only messages after this seq
   */
  attach(sessionId, currentSeq) {
    // A session that was deleted and created again with the same tag has a new id and a new history.
    if (this.sessionId !== sessionId || typeof this.lastSeq !== 'number') {
      this.lastSeq = currentSeq;
      this.queue = emptyQueue();
      this.calls = [];
      this.saved = undefined;
    }
    this.sessionId = sessionId;
    this.openedSeq = currentSeq;
    this.#save();
  }

  /** Whether a message is handled: the agent received it, or a user canceled it. */
  hasHandled(seq) {
    return seq <= this.lastSeq || this.queue.handled.includes(seq);
  }

  /** Records that all messages up to this seq are handled. The write is delayed: handling these messages again has no effect. */
  advance(seq) {
    if (seq <= this.lastSeq) return;
    this.lastSeq = seq;
    this.saveTimer ??= setTimeout(() => this.#trySave(), SAVE_DELAY_MS);
  }

  /** Records that messages are handled. @param {(number | undefined)[]} seqs undefined for a command typed at the terminal */
  markHandled(...seqs) {
    const newSeqs = seqs.filter((seq) => seq !== undefined && !this.hasHandled(seq));
    if (newSeqs.length === 0) return;
    this.queue.handled.push(.../** @type {number[]} */ (newSeqs));
    this.#save();
  }

  /**
   * Changes what is stored about the queue. Returns when the change is on the disk.
   * @param {Partial<StoredQueue>} changes
   * @throws {Error} if the change cannot be stored. Then nothing has changed
   */
  changeQueue(changes) {
    const { queue, lastSeq } = this;
    this.queue = { ...queue, ...changes };
    try {
      this.#save({ flush: true });
    } catch (error) {
      Object.assign(this, { queue, lastSeq });
      throw error;
    }
  }

  /**
   * Records a call that is about to start. After a crash, the next process does not handle its message again, and completes the call.
   * @param {Call} call
   * @param {number} [seq] of the message; none for a command typed at the terminal
   */
  recordCall(call, seq) {
    if (seq !== undefined && !this.hasHandled(seq)) this.queue.handled.push(seq);
    this.calls.push(call);
    this.#save();
  }

  /** Removes the note, or the call whose last message has this local id. To be called when the hub has stored a message. */
  handleStored(localId) {
    const incomplete = this.calls.filter(({ id }) => localIds(id).ready !== localId);
    if (incomplete.length === this.calls.length && !(localId in this.queue.notes)) return;
    this.calls = incomplete;
    delete this.queue.notes[localId];
    this.#trySave();
  }

  /** Replaces the value that the agent defines. @param {any} value of at most a few hundred KB: it is written with every message */
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

  #save({ flush = false } = {}) {
    clearTimeout(this.saveTimer);
    this.saveTimer = null;
    this.#forgetHandled();
    const { tag, hub, agentId, sessionId, lastSeq, queue, calls, saved } = this;
    const temporary = `${this.file}.${process.pid}`;
    const content = { version: STATE_VERSION, tag, hub, agentId, sessionId, lastSeq, queue, calls, saved };
    writeFileSync(temporary, JSON.stringify(content), { mode: 0o600, flush });
    renameSync(temporary, this.file);
  }

  /** Records the messages as handled that an earlier process was sending into a turn: the agent may have acted on them. */
  #endSending() {
    for (const [seq, { localId, note }] of Object.entries(this.queue.sending)) {
      this.queue.handled.push(Number(seq));
      this.queue.notes[localId] = note;
    }
    this.queue.sending = {};
  }

  /** Removes what is stored about handled messages. Keeps the handled seqs above `lastSeq`. */
  #forgetHandled() {
    const { handled, texts, order } = this.queue;
    while (handled.includes(this.lastSeq + 1)) this.lastSeq += 1;
    const isQueued = (seq) => !this.hasHandled(Number(seq));
    this.queue.order = order.filter(isQueued);
    this.queue.texts = Object.fromEntries(Object.entries(texts).filter(([seq]) => isQueued(seq)));
    this.queue.handled = handled.filter((seq) => seq > this.lastSeq);
  }

  #acquire() {
    try {
      return acquire(this.lockFile);
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      throw new Error(
        `${nameHolder(error)} already serves this session. For another session, give another --tag` +
          ` (if that process ${error.host === undefined ? 'is not an agent' : 'no longer exists'}, delete ${this.lockFile}).`,
      );
    }
  }
}

/**
 * Returns the random id in a file. Creates the file if it does not exist: of several processes that start at once, one creates the file
 * and the others read it.
 * @param {string} file
 * @param {string} field of the id
 * @returns {string}
 */
function loadOrCreate(file, field) {
  if (!existsSync(file)) {
    const temporary = `${file}.${randomUUID()}`;
    writeFileSync(temporary, JSON.stringify({ [field]: randomUUID() }), { mode: 0o600, flush: true });
    try {
      linkSync(temporary, file);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    } finally {
      rmSync(temporary, { force: true });
    }
  }
  const { [field]: id } = readJson(file);
  if (typeof id !== 'string' || id === '') throw new UserError(`The file ${file} is damaged. Delete it, to get a new id.`);
  return id;
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {};
  } catch {
    // Missing, or truncated by a crash: start with empty state.
    return {};
  }
}
