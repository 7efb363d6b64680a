/** Runs the built hub in the real runtime, with its own D1 database and Durable Objects, which survive a restart. */

import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { Miniflare } from 'miniflare';
import { childrenOf, inspectProcess } from '../../../packages/cli-kit/src/system-processes.mjs';
import { Recorder, deferred, withTimeout } from '../../../scripts/lib/await.mjs';
import { readMigrations, readWranglerToml } from '../../../scripts/lib/worker-settings.mjs';
import { Web } from '../../../scripts/product/clients/web.mjs';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/[\\/]$/, '');
const BUILD = path.join(ROOT, 'build');
const CONSOLE = path.join(ROOT, 'web', 'dist');

/** The CLI_API_TOKEN of the hubs. */
export const SECRET = 'e2e-secret-of-a-hub-on-loopback';

/** Returns the binding of the rate limit; `limit`: requests of an address in a minute, 30 in wrangler.toml. */
const limitSignIns = (limit) => ({ AUTH_RATE_LIMIT: { namespace_id: '1001', simple: { limit, period: 60 } } });

/** The key-value table in the storage of a Durable Object. */
export const KV_TABLE = 'notes';

/** The state folders, which are removed when this process exits. */
const stateFolders = new Set();
process.once('exit', () => stateFolders.forEach(removeFolder));

function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true });
  stateFolders.delete(folder);
}

/** Returns miniflare's list of the hub's modules. `wrappers`: files of this folder that wrap the built worker, the entry first. */
function modulesOf(wrappers) {
  const folders = wrappers.includes('skew.worker.js') ? [BUILD, path.join(BUILD, 'previous')] : [BUILD];
  const isMissing = (folder) => ['index.js', 'index_bg.wasm'].some((name) => !existsSync(path.join(folder, name)));
  const missing = folders.find(isMissing);
  if (missing !== undefined)
    throw new Error(
      `There is no built hub in ${missing}. Build it with: ${folders.length > 1 ? 'npm test -- --file tests/e2e/skew.test.mjs' : 'npm run build'}`,
    );
  const toModule = (name) => {
    const contents = readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');
    return { type: 'ESModule', path: path.join(BUILD, name), contents };
  };
  return [
    ...wrappers.map(toModule),
    ...folders.flatMap((folder) => [
      { type: 'ESModule', path: path.join(folder, 'index.js') },
      { type: 'CompiledWasm', path: path.join(folder, 'index_bg.wasm') },
    ]),
  ];
}

/** Returns miniflare's settings for the web console, with the values of wrangler.toml. */
function assetsOf(/** @type {Record<string, any>} */ { assets, compatibility_date, compatibility_flags }) {
  if (!existsSync(path.join(CONSOLE, 'index.html')))
    throw new Error('There is no built console in web/dist/. Build it with: npm run build');
  return {
    workerName: 'hub',
    directory: CONSOLE,
    routerConfig: { has_user_worker: true, static_routing: { user_worker: [...assets.run_worker_first, '/e2e/*'] } },
    assetConfig: {
      not_found_handling: assets.not_found_handling,
      has_static_routing: true,
      compatibility_date,
      compatibility_flags,
    },
  };
}

/** A worker that runs SQL on the hub's databases. This worker is much faster than miniflare's proxy to the database. */
const SCHEMA_WORKER = `export default {
  async fetch(request, databases) {
    const statements = await request.json();
    for (const database of Object.values(databases)) for (const sql of statements) await database.prepare(sql).run();
    return new Response();
  },
};`;

/** The wrapper for `setVariables`. */
export const VARIABLES_WORKER = ['variables.worker.js'];

/** The wrapper for `advance`. */
export const CLOCK_WORKER = ['clock.worker.js'];

/** The wrappers for `setFaults`, `readWasmMemory` and `advance`. */
export const FAULTY_WORKER = ['faulty.worker.js', 'memory.worker.js', ...CLOCK_WORKER];

/** The wrappers for `readTally` and `advance`. */
export const TALLY_WORKER = ['tally.worker.js', ...CLOCK_WORKER];

/** The wrapper for the variables `WORKER_BUILD` and `OBJECT_BUILD`, `current` or `previous`, and for `useBuilds`. */
export const SKEW_WORKER = ['skew.worker.js'];

/** The wrapper that writes the data points for Analytics Engine to standard output, and the wrapper for `advance`. */
export const ANALYTICS_WORKER = ['analytics.worker.js', ...CLOCK_WORKER];

export class Hub {
  /** The runtime's standard output. */
  stdout = new Recorder('the standard output of the runtime');
  /** The runtime's standard error. */
  stderr = new Recorder('the standard error of the runtime');
  #miniflare;
  #stateFolder = mkdtempSync(path.join(tmpdir(), 'hub-e2e-'));
  #vars;
  #rateLimit;
  #wrappers;
  #console;
  /** The ids of the databases, by their bindings. @type {Record<string, string>} */
  #databases;
  #restarted = deferred();

  /**
   * @param {Record<string, unknown>} vars
   * @param {{rateLimit: boolean, wrappers: string[], console: boolean, databases: number}} options
   */
  constructor(vars, { rateLimit, wrappers, console, databases }) {
    this.#vars = vars;
    this.#rateLimit = rateLimit;
    this.#wrappers = wrappers;
    this.#console = console;
    const numbers = Array.from({ length: databases }, (_, index) => index + 1);
    this.#databases = Object.fromEntries(numbers.map((number) => (number === 1 ? ['DB', 'hub'] : [`DB_${number}`, `hub-${number}`])));
    stateFolders.add(this.#stateFolder);
  }

  /** The address, such as `http://127.0.0.1:41234`, which stays the same after a restart. */
  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Returns the access token for a namespace, by default for the namespace `default`. */
  token(namespace) {
    return namespace === undefined ? SECRET : `${SECRET}:${namespace}`;
  }

  /** Returns a web client with the namespace's access token, or with another token. */
  web(namespace, token = this.token(namespace)) {
    return new Web({ url: this.url, token });
  }

  webWithoutToken() {
    return new Web({ url: this.url, token: null });
  }

  /** Returns a D1 database of the hub. @param {string} [binding] */
  database(binding = 'DB') {
    return this.#miniflare.getD1Database(binding, 'hub');
  }

  /** Returns the log lines that the hub has written so far. @returns {Record<string, any>[]} */
  logLines() {
    const text = [this.stdout, this.stderr].map(({ all }) => all.join('')).join('\n');
    const lines = text.split('\n').filter((line) => line.startsWith('{"time":'));
    return lines.map((line) => JSON.parse(line));
  }

  /** Copies the files of the hub's D1 database. Nothing may write to the database during the copy. @param {string} folder */
  copyDatabase(folder) {
    cpSync(path.join(this.#stateFolder, 'd1'), folder, { recursive: true });
  }

  /** Returns the names of the tables in the storage of each Durable Object. */
  storageTables() {
    const folder = path.join(this.#stateFolder, 'do', 'hub-NamespaceHub');
    const files = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
    return files.map((name) => {
      const storage = new DatabaseSync(path.join(folder, name), { readOnly: true });
      const tables = storage.prepare('SELECT name FROM sqlite_master').all();
      storage.close();
      return tables.map(({ name }) => name);
    });
  }

  async start() {
    const settings = readWranglerToml();
    const { compatibility_date: compatibilityDate, compatibility_flags: compatibilityFlags, vars } = settings;
    this.#miniflare = new Miniflare({
      d1Persist: path.join(this.#stateFolder, 'd1'),
      durableObjectsPersist: path.join(this.#stateFolder, 'do'),
      handleRuntimeStdio: (stdout, stderr) => {
        stdout.on('data', (bytes) => {
          // The standard output of this process may be the result of a command.
          process.stderr.write(bytes);
          this.stdout.push(String(bytes));
        });
        stderr.on('data', (bytes) => {
          process.stderr.write(bytes);
          this.stderr.push(String(bytes));
        });
      },
      unsafeHandleRuntimeRestart: () => this.#restarted.resolve(),
      workers: [
        {
          name: 'hub',
          modulesRoot: BUILD,
          modules: modulesOf(this.#wrappers),
          compatibilityDate,
          compatibilityFlags,
          bindings: { ...vars, CLI_API_TOKEN: SECRET, ...this.#vars },
          d1Databases: this.#databases,
          durableObjects: { HUB: { className: 'NamespaceHub', useSQLite: true } },
          // The tests of the console sign in more often in a minute than one address may.
          ratelimits: this.#rateLimit ? limitSignIns(this.#console ? 10_000 : 30) : {},
          ...(this.#console ? { assets: assetsOf(settings) } : {}),
          // miniflare's entry socket changes the host name that the hub sees.
          unsafeDirectSockets: [{ host: '127.0.0.1', port: this.port ?? 0 }],
        },
        {
          name: 'schema',
          modules: [{ type: 'ESModule', path: 'schema.js', contents: SCHEMA_WORKER }],
          compatibilityDate,
          d1Databases: this.#databases,
          unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
        },
      ],
    });
    this.port = Number((await this.#miniflare.unsafeGetDirectURL('hub')).port);
  }

  async migrate() {
    const url = await this.#miniflare.unsafeGetDirectURL('schema');
    const { status } = await fetch(url, { method: 'POST', body: JSON.stringify(readMigrations()) });
    if (status !== 200) throw new Error(`The migrations failed with status ${status}.`);
  }

  /**
   * Ends the runtime and starts it again on the same port with the stored data.
   * @param {Record<string, unknown>} [vars] new variables, as after a deployment
   */
  async restart(vars = this.#vars) {
    await this.#miniflare.dispose();
    this.#vars = vars;
    await this.start();
  }

  /**
   * Hibernates a namespace's object, as the runtime does ten seconds after the last event: evicts it from memory and keeps
   * its sockets. If the runtime has evicted it already, a request loads it first, so that a wrong name is an error.
   * @param {string} namespace
   */
  async hibernate(namespace) {
    const evict = () => this.#miniflare.unsafeEvictDurableObject('hub', 'NamespaceHub', { name: namespace, webSockets: 'hibernate' });
    try {
      await evict();
    } catch (error) {
      if (!/not currently running/.test(error.message)) throw error;
      await this.web(namespace).get('/api/sessions');
      await evict();
    }
  }

  /**
   * Advances the hub's clock, and moves the alarm of a namespace's object, which then fires if it is due. Loads the object. The alarms of
   * other objects are late by this time. Needs `CLOCK_WORKER`.
   * @param {string} namespace
   * @param {number} ms
   * @returns {Promise<number>} the hub's time, in Unix milliseconds
   */
  async advance(namespace, ms) {
    return (await this.web(namespace).get(`/e2e/advance?namespace=${namespace}&ms=${ms}`)).body;
  }

  /**
   * Advances the hub's clock in steps until a promise is settled, and returns its result. Needs `CLOCK_WORKER`.
   * @template T
   * @param {Promise<T>} promise
   * @param {string} namespace
   * @param {number} stepMs
   * @returns {Promise<T>}
   */
  async advanceUntil(promise, namespace, stepMs) {
    const step = async () => {
      await this.advance(namespace, stepMs);
      await sleep(100);
      return true;
    };
    while (await Promise.race([promise.then(() => false), step()]));
    return promise;
  }

  /**
   * Sets variables and bindings of the worker, which may be invalid; all other variables have their values of the start. The worker keeps
   * its first valid settings. Needs `VARIABLES_WORKER`.
   * @param {Record<string, unknown>} variables `null` removes a binding
   */
  async setVariables(variables) {
    await this.web().post('/e2e/variables', variables);
  }

  /**
   * Sets the faults of the next batches to D1. Replaces all earlier faults. Needs `FAULTY_WORKER`.
   * @param {{on: 'reads' | 'writes', kind: 'transient' | 'lost' | 'permanent' | 'slow', ms?: number}[]} faults `lost`: the
   *   batch is executed, but its result is lost
   */
  async setFaults(faults) {
    await this.web().post('/e2e/faults', faults);
  }

  /**
   * Selects the build of the worker for later requests, and the build of objects that are loaded later. Needs `SKEW_WORKER`.
   * @param {{worker: 'current' | 'previous', object: 'current' | 'previous'}} builds
   */
  async useBuilds(builds) {
    await this.web().post('/e2e/builds', builds);
  }

  /**
   * Stalls the database until `endStall`: batches fail, or (`silent`) get no result. Needs `FAULTY_WORKER`.
   * @param {'failing' | 'silent'} kind
   * @param {('worker' | 'object')[]} [victims] whose batches stall
   */
  async stall(kind, victims = ['worker', 'object']) {
    await this.web().post('/e2e/stall', { kind, victims });
  }

  async endStall() {
    await this.web().post('/e2e/stall', null);
  }

  /** Returns the size of the wasm memory in bytes, which never shrinks. Needs `FAULTY_WORKER`. */
  async readWasmMemory() {
    return (await this.web().get('/e2e/memory')).body;
  }

  /**
   * Reads the tally of a namespace's object: how many times the object was loaded, its events, its SQL statements, and the rows of D1
   * that these statements read and wrote. `from` and `to` of an event are Unix milliseconds; `to` is null while the object handles the
   * event. Needs `TALLY_WORKER`, which has further counts.
   * @param {string} namespace
   * @returns {Promise<{wakes: number, events: {name: string, wake: number, from: number, to: number | null}[],
   *   statements: string[], rowsRead: number, rowsWritten: number}>}
   */
  async readTally(namespace) {
    return (await this.web(namespace).get(`/e2e/tally?namespace=${namespace}`)).body;
  }

  /**
   * Kills the runtime with SIGKILL, and waits until miniflare has restarted it on the same port with the stored data. This
   * process must have only one hub. Linux only.
   */
  async killRuntime() {
    this.#restarted = deferred();
    process.kill(this.#runtimePid(), 'SIGKILL');
    await withTimeout(this.#restarted.promise, 'the runtime to restart');
  }

  /**
   * Reads the resident memory of the runtime and its peak, in bytes. This process must have only one hub. Linux only.
   * @returns {{now: number, peak: number}}
   */
  readMemory() {
    const status = readFileSync(`/proc/${this.#runtimePid()}/status`, 'utf8');
    const readBytes = (name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)[1]);
    return { now: readBytes('VmRSS'), peak: readBytes('VmHWM') };
  }

  #runtimePid() {
    const runtimes = childrenOf(process.pid).filter((pid) => inspectProcess(pid).name?.startsWith('workerd'));
    if (runtimes.length !== 1) throw new Error(`This process has ${runtimes.length} runtimes, not one.`);
    return runtimes[0];
  }

  async stop() {
    await this.#miniflare?.dispose();
    this.#miniflare = undefined;
    removeFolder(this.#stateFolder);
  }
}

/**
 * Starts a hub on a free port, and stops it after `t`.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {{vars?: Record<string, unknown>, schema?: boolean, rateLimit?: boolean, wrappers?: string[], console?: boolean,
 *   databases?: number}} [options] `vars`: override the variables of wrangler.toml; `schema: false`: an empty database; `rateLimit: false`: no rate limit
 *   binding; `wrappers`: files of this folder that wrap the built worker, the entry first; `console`: serves the web console;
 *   `databases`: how many databases the hub has
 */
export async function startHub(t, { vars = {}, schema = true, rateLimit = true, wrappers = [], console = false, databases = 1 } = {}) {
  const hub = new Hub(vars, { rateLimit, wrappers, console, databases });
  try {
    await hub.start();
    if (schema) await hub.migrate();
  } catch (error) {
    await hub.stop();
    throw error;
  }
  t.after(() => hub.stop());
  return hub;
}
