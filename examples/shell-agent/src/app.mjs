/** Puts the parts together: one process with a session, and with a machine unless told otherwise. */

import { realpath, stat } from 'node:fs/promises';
import { UsageError } from './args.mjs';
import { HubClient } from './hub-client.mjs';
import { HeldError } from './lock.mjs';
import { Machine } from './machine.mjs';
import { Outage } from './outage.mjs';
import { Session } from './session.mjs';
import { Spawner } from './spawn.mjs';
import { StateStore } from './state.mjs';
import { namespaceOf } from './token.mjs';

/** How long to wait for a hub that is not up yet. */
const PATIENCE_MS = 30_000;

/**
 * Connects to the hub and serves until `stop`.
 * @param {Record<string, any>} options as `readArgs` gives them, with `token`; also `log`, `startedByRunner` (whether
 *   another process spawned this one), `onEnding` (the session is about to end), `echo` (shows output of typed commands),
 *   and for tests `aliveMs`, `ackMs`, `reconnectMs`, `patienceMs` and `readyMs`
 * @returns {Promise<{session: Session, machine: Machine | null, stop: () => Promise<void>, ended: Promise<Error | null>}>}
 *   `ended` is settled when everything is closed, with an error when the hub refused this client
 * @throws {UsageError} when the directory cannot be served
 */
export async function startApp(options) {
  const root = await directory(options.dir, '--dir');
  const further = await Promise.all((options.allowDirs ?? []).map((one) => directory(one, '--allow-dir')));
  const store = new StateStore({ home: options.home, hub: options.hub, namespace: namespaceOf(options.token) });
  const machineId = options.machineId ?? store.machineId(root);
  const { unlock, refusal } = options.machine === false ? {} : claimMachine(store, machineId, options);
  try {
    const spawner = new Spawner({ ...options, directories: [root, ...further], machineId });
    const settings = { patienceMs: PATIENCE_MS, ...options, root, store, machineId, spawner };
    const app = new App({ ...settings, client: new HubClient(options), outage: new Outage(options) });
    app.ended.then(() => unlock?.());
    await app.start({ withMachine: unlock !== undefined, refusal });
    return app;
  } catch (error) {
    unlock?.();
    throw error;
  }
}

class App {
  #finish;
  #stopping = null;
  #started = false;

  session = null;
  machine = null;
  ended = new Promise((resolve) => {
    this.#finish = resolve;
  });

  constructor(options) {
    this.options = options;
  }

  /** @param {{withMachine: boolean, refusal?: string}} how `refusal`: why there is no machine, although one was wanted */
  async start({ withMachine, refusal }) {
    const { options } = this;
    const { spawner } = options;
    const onKill = () => this.#leave('The session was ended from the web.');
    this.session = await Session.open({ ...options, onKill });
    // Not before: of an agent that cannot serve its session either, only that is news.
    if (refusal) options.log.info(refusal);
    const { session } = this;
    spawner.own = session.served;
    session.gone.then(() => (spawner.own = null));
    session.socket.once('closed', (error) => this.#leave(error.message, error));
    try {
      if (withMachine) {
        this.machine = await Machine.open(options);
        this.machine.socket.once('closed', (error) => this.stop({ completed: false, error }));
      }
      await Promise.all([session.connect(), this.machine?.connect()]);
      this.#started = true;
    } catch (error) {
      await this.stop({ completed: false, error });
      // When the hub refused, that is the reason, not the closed connection it led to.
      throw (await this.ended) ?? error;
    }
  }

  /** Ends everything that runs here. */
  stop = ({ completed = true, error = null } = {}) => {
    this.#stopping ??= (async () => {
      this.options.onEnding?.();
      await Promise.all([this.session.end({ completed }), this.options.spawner.end(), this.machine?.end()]);
      this.#finish(error);
    })();
    return this.#stopping;
  };

  /** The session of this process is over. A machine stays: others may run on it, and this one may be resumed. */
  async #leave(why, error = null) {
    if (this.session.ending) return;
    const { log } = this.options;
    if (!this.machine || !this.#started) {
      if (!error) log.info(why);
      await this.stop({ completed: false, error });
      return;
    }
    log.info(`${why} This machine stays: sessions can be started and resumed on it. Ctrl-C ends it.`);
    await this.session.end({ completed: false });
  }
}

/**
 * Makes this process the only one of its home that is this machine.
 * @returns {{unlock?: () => void, refusal?: string}} `unlock` lets go of it; `refusal` says that another process is this
 *   directory's machine already
 * @throws {UsageError} when the id was asked for by name
 */
function claimMachine(store, id, { machineId }) {
  try {
    return { unlock: store.lockMachine(id) };
  } catch (error) {
    if (!(error instanceof HeldError)) throw error;
    if (machineId !== undefined) {
      throw new UsageError(`--machine-id: process ${error.pid} is machine ${id} already. Give another, or --no-machine.`);
    }
    const refusal =
      `Process ${error.pid} is this directory's machine already, so this one serves its session only, as with` +
      ' --no-machine. (For a machine of its own, give a --machine-id.)';
    return { refusal };
  }
}

async function directory(path, option) {
  const found = await realpath(path).catch(() => null);
  if (found === null) throw new UsageError(`${option}: there is no directory ${path}.`);
  if (!(await stat(found)).isDirectory()) throw new UsageError(`${option}: ${path} is not a directory.`);
  return found;
}
