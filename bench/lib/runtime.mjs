/** Starts workers in the runtime (workerd, controlled by miniflare), each on its own socket. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { childrenOf } from '../../packages/cli-kit/src/system-processes.mjs';
import { SCHEMA } from '../floor/write-queue.mjs';
import { hubWorker, migrate, countingHubWorker } from './hub.mjs';
import { loadPackage } from './packages.mjs';

const FLOOR = fileURLToPath(new URL('../floor', import.meta.url));

function floorWorker() {
  return {
    name: 'floor',
    modulesRoot: FLOOR,
    modules: ['worker.mjs', 'write-queue.mjs', 'packets.mjs'].map((path) => ({ type: 'ESModule', path: join(FLOOR, path) })),
    compatibilityDate: '2026-07-01',
    d1Databases: { DB: 'floor' },
    durableObjects: { FLOOR: { className: 'Floor', useSQLite: true } },
  };
}

/**
 * The kinds of workers: the floor, with which the hub is compared (bench/README.md), the hub, and the hub with counts. `worker` returns
 * miniflare's options, and `prepare` creates the schema in an empty database.
 */
const KINDS = {
  floor: { worker: floorWorker, prepare: (database) => database.prepare(SCHEMA).run() },
  hub: { worker: hubWorker, prepare: migrate },
  counting: { worker: countingHubWorker, prepare: migrate },
};

/** Temporary folders, which are removed when this process exits. */
const folders = new Set();

function remove(path) {
  rmSync(path, { recursive: true, force: true });
  folders.delete(path);
}

process.once('exit', () => folders.forEach(remove));

/**
 * Starts a worker of `KINDS` with new databases, which have the schema. The databases are files, so that writes are durable, as in
 * production. Resolves to:
 * - `url`: the worker's own socket. miniflare's entry socket is another worker, which uses more CPU time than the hub.
 * - `pid`: the process id of workerd
 * - `stop()`, which also removes the databases
 */
export async function startFresh(kind, build) {
  const { Miniflare } = loadPackage('miniflare');
  const { worker, prepare } = KINDS[kind];
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  folders.add(folder);
  const before = new Set(childrenOf(process.pid));
  const miniflare = new Miniflare({
    d1Persist: join(folder, 'd1'),
    durableObjectsPersist: join(folder, 'do'),
    // Log lines of sampled requests would stand in the table.
    handleRuntimeStdio: (output, errors) => {
      output.resume();
      // Not a pipe: each pipe adds listeners to the standard error of this process.
      errors.on('data', (chunk) => process.stderr.write(chunk));
    },
    workers: [{ ...worker(build), unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] }],
  });
  const { origin: url } = await miniflare.unsafeGetDirectURL(kind);
  await prepare(await miniflare.getD1Database('DB', kind));
  const stop = async () => {
    await miniflare.dispose();
    remove(folder);
  };
  return { url, pid: childrenOf(process.pid).find((pid) => !before.has(pid)), stop };
}
