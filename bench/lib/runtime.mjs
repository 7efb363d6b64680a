/** Starts workers in the runtime (workerd under miniflare's JavaScript API), with a direct socket each. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { SCHEMA } from '../floor/journal.mjs';
import { hubWorker, migrate, talliedHubWorker } from './hub.mjs';
import { load } from './packages.mjs';
import { childrenOf } from './processes.mjs';

const FLOOR = fileURLToPath(new URL('../floor', import.meta.url));

function floorWorker() {
  return {
    name: 'floor',
    modulesRoot: FLOOR,
    modules: ['worker.mjs', 'journal.mjs', 'packets.mjs'].map((path) => ({
      type: 'ESModule',
      path: join(FLOOR, path),
    })),
    compatibilityDate: '2026-07-01',
    d1Databases: { DB: 'floor' },
    durableObjects: { FLOOR: { className: 'Floor', useSQLite: true } },
  };
}

/** What can be started: the worker's options, and what its empty database needs. */
const KINDS = {
  floor: {
    worker: floorWorker,
    prepare: async (miniflare) => {
      const database = await miniflare.getD1Database('DB', 'floor');
      await database.prepare(SCHEMA).run();
    },
  },
  hub: {
    worker: hubWorker,
    prepare: async (miniflare) => migrate(await miniflare.getD1Database('DB', 'hub')),
  },
  tallied: {
    worker: talliedHubWorker,
    prepare: async (miniflare) => migrate(await miniflare.getD1Database('DB', 'tallied')),
  },
};

/** Folders that must be gone when the process is, however it ends. */
const folders = new Set();

function remove(path) {
  rmSync(path, { recursive: true, force: true });
  folders.delete(path);
}

process.once('exit', () => folders.forEach(remove));

/** A folder for a runtime's databases, removed with `remove`. Durability stays on: they are files, as everywhere. */
export function newState() {
  const path = mkdtempSync(join(tmpdir(), 'bench-'));
  folders.add(path);
  return { path, remove: () => remove(path) };
}

/**
 * Starts `kind` (`floor`, `hub`, or `tallied`: the hub with a tally) on the state folder and resolves to
 * `{url, pid, prepare, stop}`: the address of the worker's own socket (not miniflare's front door, a worker of its own
 * that costs more than the hub), the process id of workerd, and what creates the schema in an empty database.
 */
export async function start(kind, build, state) {
  const { Miniflare } = load('miniflare');
  const { worker, prepare } = KINDS[kind];
  const before = new Set(childrenOf(process.pid));
  const miniflare = new Miniflare({
    d1Persist: join(state.path, 'd1'),
    durableObjectsPersist: join(state.path, 'do'),
    workers: [{ ...worker(build), unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] }],
  });
  const { origin: url } = await miniflare.unsafeGetDirectURL(kind);
  return {
    url,
    get pid() {
      return childrenOf(process.pid).find((pid) => !before.has(pid));
    },
    prepare: () => prepare(miniflare),
    stop: () => miniflare.dispose(),
  };
}

/** Starts `kind` on a state of its own with its schema in place; `stop` removes the state too. */
export async function startFresh(kind, build) {
  const state = newState();
  try {
    const runtime = await start(kind, build, state);
    await runtime.prepare();
    const stop = async () => {
      await runtime.stop();
      state.remove();
    };
    return { name: kind, url: runtime.url, pid: runtime.pid, stop };
  } catch (error) {
    state.remove();
    throw error;
  }
}
