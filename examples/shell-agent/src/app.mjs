/** Puts the parts together: one process with a session, and with a machine unless told otherwise. */

import { realpath, stat } from 'node:fs/promises';
import { UsageError } from './args.mjs';
import { HubClient } from './hub-client.mjs';
import { Machine } from './machine.mjs';
import { Session } from './session.mjs';
import { Spawner } from './spawn.mjs';
import { StateStore } from './state.mjs';
import { namespaceOf } from './token.mjs';

/** How long to wait for a hub that is not up yet. */
const PATIENCE_MS = 30_000;

/**
 * Connects to the hub and serves until `stop`.
 * @param {Record<string, any>} options as `readArgs` gives them, with `token`; also `log`, `startedByRunner` (whether
 *   another process spawned this one), `echo` (shows output of typed commands), and for tests `aliveMs`, `ackMs`,
 *   `reconnectMs`, `patienceMs` and `readyMs`
 * @returns {Promise<{session: Session, machine: Machine | null, stop: () => Promise<void>, ended: Promise<Error | null>}>}
 *   `ended` is settled when everything is closed, with an error when the hub refused this client
 * @throws {UsageError} when the directory cannot be served
 */
export async function startApp(options) {
  const { log } = options;
  const root = await directory(options.dir, '--dir');
  const further = await Promise.all((options.allowDirs ?? []).map((one) => directory(one, '--allow-dir')));
  const store = new StateStore({ home: options.home, hub: options.hub, namespace: namespaceOf(options.token) });
  const machineId = options.machineId ?? store.machineId();
  const client = new HubClient(options);
  const spawner = new Spawner({ ...options, directories: [root, ...further], machineId });
  const settings = { patienceMs: PATIENCE_MS, ...options, root, store, machineId, client, spawner };

  let stopping = null;
  let finish;
  const ended = new Promise((resolve) => {
    finish = resolve;
  });
  const stop = ({ completed = true, error = null } = {}) => {
    stopping ??= (async () => {
      await Promise.all([session.end({ completed }), spawner.end(), machine?.end()]);
      finish(error);
    })();
    return stopping;
  };
  /** The session was killed from the web. Sessions that were spawned from here are others': they keep their machine. */
  const onKill = async () => {
    await session.end({ completed: false });
    if (spawner.size === 0) {
      await stop({ completed: false });
      return;
    }
    log.info('The session has ended; this machine stays for the sessions that it started.');
    spawner.onEnd = () => spawner.size === 0 && stop({ completed: false });
  };

  const session = await Session.open({ ...settings, onKill });
  let machine = null;
  const fail = (error) => stop({ completed: false, error });
  session.socket.once('closed', fail);
  try {
    if (options.machine !== false) {
      machine = await Machine.open(settings);
      machine.socket.once('closed', fail);
    }
    await Promise.all([session.connect(), machine?.connect()]);
  } catch (error) {
    await fail(error);
    // When the hub refused, that is the reason, not the closed connection it led to.
    throw (await ended) ?? error;
  }
  return { session, machine, stop, ended };
}

async function directory(path, option) {
  const found = await realpath(path).catch(() => null);
  if (found === null) throw new UsageError(`${option}: there is no directory ${path}.`);
  if (!(await stat(found)).isDirectory()) throw new UsageError(`${option}: ${path} is not a directory.`);
  return found;
}
