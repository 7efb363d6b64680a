/** The app: one process that serves one session and, unless `--no-machine` is given, one machine. */

import { realpath } from 'node:fs/promises';
import { describeMismatch } from './compatibility.mjs';
import { describeDirectoryProblem } from './directory-problem.mjs';
import { UserError } from './errors.mjs';
import { HubClient } from './hub-client.mjs';
import { LockHeldError, nameHolder } from './lock.mjs';
import { Machine } from './machine.mjs';
import { OutageMonitor } from './outage.mjs';
import { Session } from './session.mjs';
import { Spawner } from './spawn.mjs';
import { StateStore } from './state.mjs';
import { namespaceOf, removeToken } from './token.mjs';

/** How long to retry at the start while the hub is unreachable. */
const START_TIMEOUT_MS = 30_000;

/**
 * The options that the program's main function adds to the options of the command line. Only tests set the `…Ms` options.
 * @typedef {object} MainOptions
 * @property {import('./program.mjs').Program} program
 * @property {string} token
 * @property {string} [namespace] that the token opens; by default the namespace that the token names
 * @property {ReturnType<typeof import('./log.mjs').makeLog>} log
 * @property {boolean} [startedByRunner] whether a runner started this process
 * @property {(sessionId: string) => void} [onOpened] called when the hub has the session, which is not served yet
 * @property {() => void} [onEnding] called when the app starts to stop
 * @property {(text: string) => void} [echo] prints the output of typed commands
 * @property {AbortSignal} [signal] aborts the start
 * @property {number} [keepAliveIntervalMs]
 * @property {number} [ackTimeoutMs]
 * @property {number} [reconnectDelayMs]
 * @property {number} [startTimeoutMs]
 * @property {number} [readyTimeoutMs]
 *
 * @typedef {import('./program.mjs').ProgramOptions & MainOptions} AppOptions
 *
 * The options that `startApp` adds for the session and the machine.
 * @typedef {object} ServingContext
 * @property {string} root the directory to serve, resolved
 * @property {StateStore} store
 * @property {string} machineId
 * @property {Spawner} spawner
 * @property {HubClient} client
 * @property {OutageMonitor} outage
 *
 * @typedef {AppOptions & ServingContext} ServingOptions
 */

/**
 * Connects to the hub and serves until `stop`.
 * @param {AppOptions} options
 * @returns {Promise<{session: Session, machine: Machine | null, stop: () => Promise<void>, ended: Promise<Error | null>}>}
 *   `ended` resolves when everything is closed: to an error if the hub refused this client, otherwise to null
 * @throws {UserError} when the directory cannot be served
 */
export async function startApp(options) {
  // Child processes inherit the environment. Some child processes, such as git, run programs that the agent can choose.
  removeToken(process.env, options.token);
  const root = await resolveDirectory(options.dir, '--dir');
  const allowed = await Promise.all((options.allowDirs ?? []).map((dir) => resolveDirectory(dir, '--allow-dir')));
  const { home, hub, token, namespace = namespaceOf(token) } = options;
  const store = new StateStore({ home, hub, namespace });
  const machineId = options.machineId ?? store.loadMachineId(root);
  const { unlock, noMachineReason } = options.machine === false ? {} : claimMachine(store, machineId, options);
  try {
    const spawner = new Spawner({ ...options, namespace, directories: [root, ...allowed], machineId });
    const context = { startTimeoutMs: START_TIMEOUT_MS, ...options, root, store, machineId, spawner };
    const app = new App({ ...context, client: new HubClient(options), outage: new OutageMonitor(options) });
    app.ended.then(() => unlock?.());
    await app.start({ withMachine: unlock !== undefined, noMachineReason });
    return app;
  } catch (error) {
    unlock?.();
    throw error;
  }
}

class App {
  /** @type {(error: Error | null) => void} */
  #resolveEnded;
  /** @type {Promise<void> | null} */
  #stopPromise = null;
  #isStarted = false;

  /** @type {Session | null} */
  session = null;
  /** @type {Machine | null} */
  machine = null;
  /** @type {Promise<Error | null>} */
  ended = new Promise((resolve) => {
    this.#resolveEnded = resolve;
  });

  /** @param {ServingOptions} options */
  constructor(options) {
    this.options = options;
  }

  /** @param {{withMachine: boolean, noMachineReason?: string}} mode `noMachineReason`: why this process cannot be the machine */
  async start({ withMachine, noMachineReason }) {
    const { options } = this;
    const { spawner } = options;
    const onKill = () => this.#endSession('The session was ended from the web.');
    this.session = await Session.open({ ...options, onKill });
    // Logged only for an open session: if the session cannot be opened, its error is the only message.
    if (noMachineReason) options.log.info(noMachineReason);
    const { session } = this;
    options.onOpened?.(session.id);
    spawner.ownSession = session.servedSession;
    session.ended.then(() => (spawner.ownSession = null));
    session.socket.once('closed', (error) => this.#endSession(error.message, error));
    try {
      options.signal?.throwIfAborted();
      const aborted = new Promise((_, reject) =>
        options.signal?.addEventListener('abort', () => reject(options.signal.reason), { once: true }),
      );
      if (withMachine) {
        this.machine = await Machine.open(options);
        this.machine.socket.once('closed', (error) => this.stop({ sessionCompleted: false, error }));
      }
      await Promise.race([Promise.all([session.connect(), this.machine?.connect()]), aborted]);
      this.#isStarted = true;
      if (!options.startedByRunner) this.#compareVersions();
    } catch (error) {
      await this.stop({ sessionCompleted: false, error });
      await session.discardUnstarted();
      // If the hub refused this client, the `closed` handler has already stopped the app. Then `ended` resolves to the reason.
      throw (await this.ended) ?? error;
    }
  }

  /** Warns if the hub speaks another version of the protocol. */
  async #compareVersions() {
    const { client, log } = this.options;
    try {
      const { protocolVersion } = await client.readHealth();
      const mismatch = describeMismatch(protocolVersion);
      if (mismatch) log.warn(mismatch);
    } catch (error) {
      log.debug(error.message);
    }
  }

  /** Ends the session, the spawned sessions and the machine. `error`: the value that `ended` resolves to. */
  stop = ({ sessionCompleted = true, error = null } = {}) => {
    this.#stopPromise ??= (async () => {
      this.options.onEnding?.();
      await Promise.all([this.session.end({ completed: sessionCompleted }), this.options.spawner.end(), this.machine?.end()]);
      this.#resolveEnded(error);
    })();
    return this.#stopPromise;
  };

  /** Ends this process's session. A machine keeps running, because it may have other sessions. */
  async #endSession(reason, error = null) {
    if (this.session.isEnding) return;
    const { log } = this.options;
    if (!this.machine || !this.#isStarted) {
      if (!error) log.info(reason);
      await this.stop({ sessionCompleted: false, error });
      return;
    }
    log.info(`${reason} The machine keeps running: sessions can still be started and resumed on it. Ctrl-C ends it.`);
    await this.session.end({ completed: false });
  }
}

/**
 * Locks the machine id, so that only one process at a time serves this machine.
 * @param {StateStore} store
 * @param {string} id
 * @param {{machineId?: string}} options
 * @returns {{unlock?: () => void, noMachineReason?: string}} `noMachineReason`: the message to log when another process holds the lock
 * @throws {UserError} when another process holds the lock of a `--machine-id`
 */
function claimMachine(store, id, { machineId }) {
  try {
    return { unlock: store.lockMachine(id) };
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    if (machineId !== undefined) {
      throw new UserError(`--machine-id: ${nameHolder(error)} already is machine ${id}. Give another --machine-id, or --no-machine.`);
    }
    const noMachineReason =
      `${nameHolder(error)} already serves a machine for this directory. This process serves only its session, as with` +
      ` --no-machine. To run a second machine, give a --machine-id${error.host === undefined ? '' : `, or delete ${error.file} if that process no longer exists`}.`;
    return { noMachineReason };
  }
}

/**
 * Returns the real path of a directory that an option names.
 * @throws {UserError} when it is not a directory. No `UsageError`, because its disk may be mounted later: a service starts again
 */
export async function resolveDirectory(path, option) {
  const problem = describeDirectoryProblem(path);
  if (problem !== null) throw new UserError(`${option}: ${problem}`);
  return realpath(path);
}
