/** The built hub in the real runtime, with a D1 database and objects of its own that survive a restart. */

import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { Miniflare } from 'miniflare';
import { Recorder, deferred, within } from './await.mjs';
import { Web } from './web.mjs';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/[\\/]$/, '');
const BUILD = path.join(ROOT, 'build');
const CONSOLE = path.join(ROOT, 'web', 'dist');

/** The shared secret of the hubs of these tests. */
export const SECRET = 'e2e-secret-of-a-hub-on-loopback';

/** As in wrangler.toml. */
const RATE_LIMITS = { AUTH_RATE_LIMIT: { namespace_id: '1001', simple: { limit: 30, period: 60 } } };

/** State folders of this process, removed when it ends however it ends. */
const folders = new Set();
process.once('exit', () => folders.forEach(removeFolder));

function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

/** What the hub needs of wrangler.toml: what runs here is what would be deployed. */
function settings() {
  const text = readFileSync(path.join(ROOT, 'wrangler.toml'), 'utf8');
  const vars = /^\[vars\]\n([^]*?)(?=^\[|(?![^]))/m.exec(text)?.[1] ?? '';
  const list = (name) => [...new RegExp(`^${name}\\s*=\\s*\\[([^\\]]*)\\]`, 'm').exec(text)[1].matchAll(/"([^"]+)"/g)].map(([, one]) => one);
  return {
    compatibilityDate: /^compatibility_date\s*=\s*"([^"]+)"/m.exec(text)[1],
    compatibilityFlags: list('compatibility_flags'),
    workerFirst: list('run_worker_first'),
    vars: Object.fromEntries([...vars.matchAll(/^(\w+)\s*=\s*"([^"]*)"/gm)].map(([, name, value]) => [name, value])),
  };
}

/** The modules of the built hub; `around` names files of this folder that stand around it, the entry first. */
function modules(around) {
  if (!['index.js', 'index_bg.wasm'].every((name) => existsSync(path.join(BUILD, name)))) {
    throw new Error('There is no built hub in build/: run `npm run build` first.');
  }
  const laid = (name) => {
    const contents = readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');
    return { type: 'ESModule', path: path.join(BUILD, name), contents };
  };
  return [
    ...around.map(laid),
    { type: 'ESModule', path: path.join(BUILD, 'index.js') },
    { type: 'CompiledWasm', path: path.join(BUILD, 'index_bg.wasm') },
  ];
}

/** The web console beside the worker, as wrangler.toml has it. */
function assets(workerFirst) {
  if (!existsSync(path.join(CONSOLE, 'index.html'))) throw new Error('There is no built console in web/dist/: run `npm run build` first.');
  return {
    workerName: 'hub',
    directory: CONSOLE,
    routerConfig: { has_user_worker: true, static_routing: { user_worker: workerFirst } },
  };
}

function migrations() {
  const folder = path.join(ROOT, 'migrations');
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => readFileSync(path.join(folder, name), 'utf8'));
}

/** A worker on the hub's database that runs the SQL it is sent: much cheaper than miniflare's proxy to the database. */
const SCHEMA_WORKER = `export default {
  async fetch(request, { DB }) {
    for (const sql of await request.json()) await DB.prepare(sql).run();
    return new Response();
  },
};`;

/** What stands around a hub whose database is to have faults, and whose wasm memory is to be seen. */
export const FAULTY = ['faulty.worker.js', 'memory.worker.js'];

export class Hub {
  /** What the runtime complained of, as it writes it to its standard error. */
  complaints = new Recorder('the complaints of the runtime');
  #miniflare;
  #state = mkdtempSync(path.join(tmpdir(), 'hub-e2e-'));
  #vars;
  #rateLimit;
  #around;
  #console;
  #revived = deferred();

  /**
   * @param {Record<string, unknown>} vars
   * @param {{rateLimit: boolean, around: string[], console: boolean}} options
   */
  constructor(vars, { rateLimit, around, console }) {
    this.#vars = vars;
    this.#rateLimit = rateLimit;
    this.#around = around;
    this.#console = console;
    folders.add(this.#state);
  }

  /** Such as `http://127.0.0.1:41234`; stays the same over a restart. */
  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** An access token for a namespace; without one for the namespace `default`. */
  token(namespace) {
    return namespace === undefined ? SECRET : `${SECRET}:${namespace}`;
  }

  /** A client that shows this namespace's access token, or `token`, or none when that is null. */
  web(namespace, token = this.token(namespace)) {
    return new Web({ url: this.url, token });
  }

  /** The database, for what the hub itself is not to be asked about. */
  database() {
    return this.#miniflare.getD1Database('DB', 'hub');
  }

  /** What the objects keep in storage of their own: for each that ever was, the names of its tables. */
  tables() {
    const folder = path.join(this.#state, 'do', 'hub-NamespaceHub');
    const files = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
    return files.map((name) => {
      const storage = new DatabaseSync(path.join(folder, name), { readOnly: true });
      const tables = storage.prepare('SELECT name FROM sqlite_master').all();
      storage.close();
      return tables.map(({ name }) => name);
    });
  }

  async start() {
    const { compatibilityDate, compatibilityFlags, vars, workerFirst } = settings();
    this.#miniflare = new Miniflare({
      d1Persist: path.join(this.#state, 'd1'),
      durableObjectsPersist: path.join(this.#state, 'do'),
      handleRuntimeStdio: (stdout, stderr) => {
        stdout.on('data', (bytes) => process.stdout.write(bytes));
        stderr.on('data', (bytes) => {
          process.stderr.write(bytes);
          this.complaints.push(String(bytes));
        });
      },
      unsafeHandleRuntimeRestart: () => this.#revived.resolve(),
      workers: [
        {
          name: 'hub',
          modulesRoot: BUILD,
          modules: modules(this.#around),
          compatibilityDate,
          compatibilityFlags,
          bindings: { ...vars, CLI_API_TOKEN: SECRET, ...this.#vars },
          d1Databases: { DB: 'hub' },
          durableObjects: { HUB: { className: 'NamespaceHub', useSQLite: true } },
          ratelimits: this.#rateLimit ? RATE_LIMITS : {},
          ...(this.#console ? { assets: assets(workerFirst) } : {}),
          // miniflare's own front door would change the host name that the hub sees.
          unsafeDirectSockets: [{ host: '127.0.0.1', port: this.port ?? 0 }],
        },
        {
          name: 'schema',
          modules: [{ type: 'ESModule', path: 'schema.js', contents: SCHEMA_WORKER }],
          compatibilityDate,
          d1Databases: { DB: 'hub' },
          unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
        },
      ],
    });
    this.port = Number((await this.#miniflare.unsafeGetDirectURL('hub')).port);
  }

  async migrate() {
    const url = await this.#miniflare.unsafeGetDirectURL('schema');
    const { status } = await fetch(url, { method: 'POST', body: JSON.stringify(migrations()) });
    if (status !== 200) throw new Error(`The migrations failed with status ${status}.`);
  }

  /**
   * Ends the runtime at once and starts it again on the same port with what was stored.
   * @param {Record<string, unknown>} [vars] in place of those it was started with, as a deploy may bring them
   */
  async restart(vars = this.#vars) {
    await this.#miniflare.dispose();
    this.#vars = vars;
    await this.start();
  }

  /**
   * Puts the object of a namespace to sleep as the runtime does by itself when nothing happens for ten seconds: it drops
   * the object's memory and keeps its sockets. Answers whether it was awake.
   * @param {string} namespace
   */
  async sleep(namespace) {
    try {
      const options = { name: namespace, webSockets: 'hibernate' };
      await this.#miniflare.unsafeEvictDurableObject('hub', 'NamespaceHub', options);
      return true;
    } catch (error) {
      if (/not currently running/.test(error.message)) return false;
      throw error;
    }
  }

  /**
   * What the next batches to D1 meet, of a hub with `FAULTY` around it; what was set before and not met is forgotten.
   * @param {{on: 'reads' | 'writes', kind: 'passing' | 'lost' | 'lasting' | 'slow', ms?: number}[]} faults
   */
  async faults(faults) {
    await this.web().post('/e2e/faults', faults);
  }

  /** How large the wasm memory is, in bytes, of a hub with `FAULTY` around it. It never shrinks. */
  async wasmMemory() {
    return (await this.web().get('/e2e/memory')).body;
  }

  /**
   * What the object of a namespace did, of a hub with `tally.worker.js` around it: how often it woke, the events that it
   * handled (in Unix milliseconds; `to` is null while one is being handled), the SQL that it sent to D1.
   * @param {string} namespace
   * @returns {Promise<{wakes: number, events: {name: string, wake: number, from: number, to: number | null}[],
   *   statements: string[]}>}
   */
  async tally(namespace) {
    return (await this.web(namespace).get(`/e2e/tally?namespace=${namespace}`)).body;
  }

  /**
   * Kills the runtime of this process's only hub with SIGKILL. Settled when it runs again, on the same port with what was
   * stored. Linux only.
   */
  async kill() {
    this.#revived = deferred();
    process.kill(this.#runtime(), 'SIGKILL');
    await within(this.#revived.promise, 'the runtime to run again', 60_000);
  }

  /**
   * The memory that the runtime of this process's only hub takes, and the most it has taken so far, in bytes. Linux only.
   * @returns {{now: number, peak: number}}
   */
  memory() {
    const status = readFileSync(`/proc/${this.#runtime()}/status`, 'utf8');
    const bytes = (name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)[1]);
    return { now: bytes('VmRSS'), peak: bytes('VmHWM') };
  }

  /** The process id of the runtime. */
  #runtime() {
    const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').trim().split(' ');
    const runtimes = children.filter((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('workerd'));
    if (runtimes.length !== 1) throw new Error(`This process has ${runtimes.length} runtimes, not one.`);
    return Number(runtimes[0]);
  }

  async stop() {
    await this.#miniflare?.dispose();
    removeFolder(this.#state);
  }
}

/**
 * Starts a hub on a free port. The caller stops it.
 * @param {{vars?: Record<string, unknown>, schema?: boolean, rateLimit?: boolean, around?: string[], console?: boolean}}
 *   [options] `vars` override those of wrangler.toml; without `schema` the database stays empty, without `rateLimit` its
 *   binding is missing; `around` names files of this folder that stand around the built worker, the entry first; with
 *   `console` the web console is served, too
 */
export async function startHub({ vars = {}, schema = true, rateLimit = true, around = [], console = false } = {}) {
  const hub = new Hub(vars, { rateLimit, around, console });
  try {
    await hub.start();
    if (schema) await hub.migrate();
    return hub;
  } catch (error) {
    await hub.stop();
    throw error;
  }
}
