/**
 * Lock files. A lock lists processes by their ids and start times, and is held while any of these processes runs. When all have ended,
 * the lock is stale, and is removed by the next process that needs the lock.
 *
 * Several computers or containers may share the folder of a lock. A process id is valid on one host only, so the lock names its host. A
 * lock of another host is held until that host releases it, or a user deletes the file.
 */

import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { inspectProcess, isRunning } from './system-processes.mjs';

/**
 * A process. Process ids are reused, so the start time is part of its identity.
 * @typedef {object} Process
 * @property {number} pid
 * @property {string} startTime in the system's format; empty if the system does not provide the start time
 */

/**
 * Where process ids are valid.
 * @typedef {object} Host
 * @property {string} name the host name
 * @property {string} computer the machine id; empty if the system has none
 * @property {string} boot changes at each start of the system; empty if the system does not provide it
 * @property {string} processes the namespace of process ids, which each container has; empty if the system has none
 */

/**
 * The content of a lock file.
 * @typedef {object} LockContent
 * @property {string} id unique per acquisition
 * @property {Host} [host] missing in locks of earlier versions
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
 * The holder of a lock that another process has acquired. `host`: the name of the holder's host if it is another host; `ownerHasExited`:
 * the lock is held only by processes that its owner added.
 * @typedef {{lock?: undefined, pid: number, host?: string, details: Record<string, string>, ownerHasExited: boolean}} LockHolder
 */

/** @type {Host} */
export const THIS_HOST = {
  name: hostname(),
  computer: readOrEmpty(() => readFileSync('/etc/machine-id', 'utf8').trim()),
  boot: readOrEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()),
  processes: readOrEmpty(() => readlinkSync('/proc/self/ns/pid')),
};

/** The pause before a new attempt, while another process removes a stale lock. */
const REMOVAL_RETRY_DELAY_MS = 20;

/** @type {Map<string, Lock>} the locks that this process holds, by the id in the lock file */
const heldLocks = new Map();
process.once('exit', () => heldLocks.forEach((lock) => lock.release()));

/** Another process, or this process, already holds the lock. */
export class LockHeldError extends Error {
  /**
   * @param {string} file
   * @param {{pid?: number, host?: string}} holder
   */
  constructor(file, { pid, host }) {
    super(`${nameHolder({ pid, host })} holds the lock ${file}.`);
    this.file = file;
    this.pid = pid;
    /** The name of the holder's host, if it is another host. */
    this.host = host;
  }
}

/** Describes the holder of a lock at the beginning of a sentence. @param {{pid?: number, host?: string}} holder */
export function nameHolder({ pid, host }) {
  return host === undefined ? `Process ${pid}` : `Process ${pid} of another computer or container (host name ${host})`;
}

/**
 * Acquires a lock, which is released at the latest when this process exits.
 * @param {string} file
 * @returns {() => void} releases the lock
 * @throws {LockHeldError} when a running process holds the lock
 */
export function acquire(file) {
  const attempt = tryLock(file);
  if (!attempt.lock) throw new LockHeldError(file, attempt);
  return attempt.lock.release;
}

/**
 * Acquires a lock, or returns its holder. The lock is released at the latest when this process exits.
 * @param {string} file
 * @param {Record<string, string>} [details] for processes that find the lock held
 * @returns {{lock: Lock, pid?: undefined, host?: undefined, details?: undefined, ownerHasExited?: undefined} | LockHolder}
 */
export function tryLock(file, details = {}) {
  mkdirSync(path.dirname(file), { recursive: true });
  const content = { id: randomUUID(), host: THIS_HOST, processes: [identifyProcess(process.pid)], details };
  while (!createFile(file, content)) {
    const text = readLock(file);
    // The holder has released the lock since `createFile`.
    if (text === undefined) continue;
    const holder = holderOf(text);
    if (holder) return holder;
    if (!removeStaleLock(file, text)) sleepSync(REMOVAL_RETRY_DELAY_MS);
  }
  return { lock: createLock(file, content) };
}

/** Returns the holder of a lock; undefined if no process holds the lock. @param {string} file @returns {LockHolder | undefined} */
export const findHolder = (file) => holderOf(readLock(file) ?? '');

/** @param {string} text the content of a lock file @returns {LockHolder | undefined} */
function holderOf(text) {
  const { id, host = THIS_HOST, processes, details } = parseLock(text);
  if (processes.length > 0 && isOtherHost(host)) return { pid: processes[0].pid, host: host.name, details, ownerHasExited: false };
  const hasRestarted = host.boot !== THIS_HOST.boot;
  const isHeldBy = (listed, at) => !hasRestarted && (at === 0 ? isOwnerHolding(listed, id) : isHolding(listed));
  const index = processes.findIndex(isHeldBy);
  return index === -1 ? undefined : { pid: processes[index].pid, details, ownerHasExited: index > 0 };
}

/**
 * Adds processes to every lock that this process holds. If the added processes outlive this process, the locks stay held.
 * @param {number[]} pids
 */
export function holdLocksFor(pids) {
  for (const lock of heldLocks.values()) lock.addProcesses(pids);
}

/**
 * @param {string} file
 * @param {LockContent} content of the file
 * @returns {Lock}
 */
function createLock(file, content) {
  // If a user deleted the file, another process may hold the lock.
  const isOwn = () => parseLock(readLock(file) ?? '').id === content.id;
  const release = () => {
    heldLocks.delete(content.id);
    if (isOwn()) rmSync(file, { force: true });
  };
  const rewrite = () => {
    if (isOwn()) renameSync(writeTemporary(file, content), file);
  };
  const lock = {
    addProcesses(pids) {
      const [owner, ...others] = content.processes;
      content.processes = [owner, ...others.filter(isHolding), ...pids.map(identifyProcess)];
      rewrite();
    },
    setDetails(details) {
      content.details = details;
      rewrite();
    },
    release,
  };
  heldLocks.set(content.id, lock);
  return lock;
}

/**
 * Creates the lock file atomically with its content. Returns false if the file exists.
 * @param {string} file
 * @param {LockContent} content
 */
function createFile(file, content) {
  const temporary = writeTemporary(file, content);
  try {
    linkSync(temporary, file);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/**
 * @param {string} file
 * @param {LockContent} content
 * @returns {string} the path of a new file with the content, in the same folder
 */
function writeTemporary(file, content) {
  const temporary = `${file}.${randomUUID()}`;
  // Earlier versions of the CLIs read the owner from the fields `pid` and `startTime`.
  writeFileSync(temporary, JSON.stringify({ ...content.processes[0], ...content }), { mode: 0o600 });
  return temporary;
}

/**
 * Removes a stale lock. Two processes may find the same stale lock. The slower process must not remove the lock that the faster
 * process has acquired meanwhile. So each process first locks another file, the claim, which is named after the stale content. The holder
 * of the claim removes the stale lock if the content of the lock is unchanged.
 * @param {string} file
 * @param {string} text the content of the stale lock
 * @returns {boolean} false when another process is removing the lock
 */
function removeStaleLock(file, text) {
  const { lock: claim } = tryLock(`${file}.${createHash('sha256').update(text).digest('hex').slice(0, 16)}`);
  if (!claim) return false;
  try {
    if (readLock(file) === text) rmSync(file, { force: true });
    return true;
  } finally {
    claim.release();
  }
}

/** Returns the content of a lock file; undefined if there is no file. @param {string} file */
function readLock(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * @param {string} text
 * @returns {LockContent} without processes if the file is damaged
 */
function parseLock(text) {
  try {
    const { id, host, pid: ownerPid, startTime, processes = [{ pid: ownerPid, startTime }], details = {} } = JSON.parse(text);
    return { id, host: host ?? undefined, processes: processes.filter(({ pid }) => Number.isInteger(pid) && pid > 0), details };
  } catch {
    return { id: '', processes: [], details: {} };
  }
}

/**
 * Whether this process cannot see the processes of a host. After a restart of this computer, which its machine id identifies, the earlier
 * processes have ended, also those of containers.
 * @param {Host} host
 */
function isOtherHost({ name, computer, boot, processes }) {
  // The host name of a computer may change while the computer runs.
  if (boot !== '' && boot === THIS_HOST.boot) return processes !== THIS_HOST.processes;
  return name !== THIS_HOST.name || computer !== THIS_HOST.computer || (boot !== THIS_HOST.boot && computer === '');
}

/** Whether process ids of a host are valid here. @param {Host} host */
export const sharesProcesses = ({ boot, processes }) => boot === THIS_HOST.boot && processes === THIS_HOST.processes;

/** @param {() => string} read */
function readOrEmpty(read) {
  try {
    return read();
  } catch {
    return '';
  }
}

/** Whether a process that a lock lists is still running, so that it holds the lock. @param {Process} listed */
const isHolding = ({ pid, startTime }) => isRunning(pid, startTime);

/**
 * Whether the owner of a lock still holds the lock.
 * @param {Process} owner
 * @param {string} id in the lock file
 */
function isOwnerHolding(owner, id) {
  // A file with this process's id may be another process's lock: a copied file, or the file of an earlier process with the same id.
  return owner.pid === process.pid ? heldLocks.has(id) : isHolding(owner);
}

/**
 * @param {number} pid of a running process
 * @returns {Process}
 */
function identifyProcess(pid) {
  return { pid, startTime: inspectProcess(pid).startTime ?? '' };
}

/** @param {number} ms */
function sleepSync(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
