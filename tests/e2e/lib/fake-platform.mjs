/**
 * A fake of the platform's API, as far as wrangler uses it to deploy and operate a hub. It has one account, executes the SQL of its databases with
 * SQLite, and can fail or not answer at a chosen request.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { deferred } from '../../../scripts/lib/await.mjs';
import { serveTail } from './fake-tail.mjs';
import { dumpSql } from './sql-dump.mjs';

export const ACCOUNT = { id: 'ac0ac0ac0ac0ac0ac0ac0ac0ac0ac0ac', name: 'Account of the tests' };

/** The API token that the fake accepts. */
export const API_TOKEN = 'api-token-of-the-tests';

/**
 * @typedef {object} Fault
 * @property {string} on start of the request, such as `POST /d1/database`; paths are relative to the account
 * @property {number} [skip] how many such requests are served before the fault begins
 * @property {number} [status] of the answers; without `status`, the request has its effect, but is not answered
 *
 * @typedef {object} Worker
 * @property {string[]} versions their ids
 * @property {string | undefined} active the id of the version that gets the requests
 * @property {string[]} deployments the ids of the versions that got the requests, oldest first
 * @property {Record<string, any>} metadata of the last upload
 * @property {Map<string, string>} secrets
 * @property {boolean} isEnabled whether it has its workers.dev address
 */

/** Returns who created a deployment or a version, and when. @param {number} minute */
const authorAndTime = (minute) => ({
  source: 'wrangler',
  created_on: new Date(Date.UTC(2026, 10, 1, 0, minute)).toISOString(),
  author_email: 'founder@example.com',
});

/** The statistics of a database in the last day. */
const D1_STATISTICS = { viewer: { accounts: [{ d1AnalyticsAdaptiveGroups: [{ sum: { rowsWritten: 98_765 } }] }] } };

/** An error of the API. */
class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class FakePlatform {
  /** @type {Map<string, {name: string, options: Record<string, any>, sqlite: DatabaseSync}>} by id */
  databases = new Map();
  /** @type {Map<string, Worker>} by name */
  workers = new Map();
  /** @type {string[]} method and path of each request */
  requests = [];
  accounts = [ACCOUNT];
  /** Called after each upload of a Worker, and after each change of a secret. @type {(name: string, worker: Worker) => unknown} */
  onUpload = () => undefined;
  /** Called after a version began to get the requests. @type {(versionId: string) => unknown} */
  onActivate = () => undefined;
  /** The log lines that a tail of the Worker gets. @type {() => object[]} */
  readLog = () => [];
  /** The filters of the last tail. @type {{query?: string}[]} */
  #tailFilters = [];
  /** @type {Fault | undefined} */
  #fault;
  #faultReached = deferred();
  #server = http.createServer((request, response) => this.#handle(request, response));

  async start() {
    this.#server.on('upgrade', (request, socket) => serveTail(request, socket, { lines: this.readLog(), filters: this.#tailFilters }));
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    this.url = `http://127.0.0.1:${port}`;
    return this;
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Creates a database. @param {string} name @param {Record<string, any>} [options] @returns {string} its id */
  addDatabase(name, options = {}) {
    const id = randomUUID();
    this.databases.set(id, { name, options, sqlite: new DatabaseSync(':memory:') });
    return id;
  }

  /** Creates a Worker. @param {string} name @param {Record<string, string>} secrets @param {string[]} [versions] the last is active */
  addWorker(name, secrets, versions = []) {
    const active = versions.at(-1);
    const deployed = { versions, active, deployments: [...versions], metadata: {}, isEnabled: true };
    this.workers.set(name, { ...deployed, secrets: new Map(Object.entries(secrets)) });
  }

  /**
   * Makes requests fail until `recover` is called: one failure is not enough, because wrangler repeats some requests.
   * @param {Fault} fault
   * @returns {Promise<void>} resolves when such a request has failed, or has had its effect
   */
  failOn(fault) {
    this.#fault = { skip: 0, ...fault };
    this.#faultReached = deferred();
    return this.#faultReached.promise;
  }

  recover() {
    this.#fault = undefined;
  }

  /** Returns the fault of a request. @param {string} line its method and path */
  #faultOf(line) {
    if (!this.#fault || !line.startsWith(this.#fault.on)) return undefined;
    if (this.#fault.skip > 0) {
      this.#fault.skip -= 1;
      return undefined;
    }
    return this.#fault;
  }

  /** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
  async #handle(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const url = new URL(request.url, this.url);
    const path = url.pathname.replace(`/accounts/${ACCOUNT.id}`, '');
    const line = `${request.method} ${path}`;
    this.requests.push(line);
    const [, databaseId] = /^GET \/exports\/(.+)$/.exec(line) ?? [];
    if (databaseId !== undefined) return response.end(dumpSql(this.databases.get(databaseId).sqlite));
    if (line === 'POST /graphql') return response.end(JSON.stringify({ data: D1_STATISTICS }));
    const fault = this.#faultOf(line);
    const answer = fault?.status
      ? errorAnswer(new ApiError(fault.status, 10_000 + fault.status, 'The test failed this request.'))
      : await this.#answerOf(request, path, url, Buffer.concat(chunks));
    if (fault) this.#faultReached.resolve();
    if (fault && !fault.status) return undefined;
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    return response.end(JSON.stringify(answer.body));
  }

  async #answerOf(request, path, url, body) {
    try {
      if (request.headers.authorization !== `Bearer ${API_TOKEN}` && !path.startsWith('/workers/assets/'))
        throw new ApiError(403, 10000, 'Authentication error');
      return resultAnswer(await this.#serve(request.method, path, url, body, request.headers['content-type'] ?? ''));
    } catch (error) {
      return errorAnswer(error);
    }
  }

  async #serve(method, path, url, body, type) {
    const json = () => JSON.parse(String(body));
    const route = `${method} ${path}`;
    if (route === 'GET /user/tokens/verify') return { id: 'token', status: 'active' };
    if (route === 'GET /user') return { id: 'user', email: 'founder@example.com' };
    if (route === 'GET /accounts') return this.accounts;
    if (route === 'GET /memberships') return this.accounts.map((account) => ({ id: account.id, account, roles: [] }));
    if (path.startsWith('/d1/database')) return this.#serveDatabase(method, path, json);
    if (path.startsWith('/workers/')) return this.#serveWorkers(method, path, json, body, type);
    throw new ApiError(404, 7003, `The fake platform has no ${route}${url.search}`);
  }

  #serveDatabase(method, path, json) {
    const [, , , id, action] = path.split('/');
    if (method === 'GET' && !id) return [...this.databases].map(([uuid, { name }]) => ({ uuid, name }));
    if (method === 'POST' && !id) {
      const { name, ...options } = json();
      if ([...this.databases.values()].some((database) => database.name === name))
        throw new ApiError(400, 7502, `A database with that name already exists`);
      return { uuid: this.addDatabase(name, options), name, created_in_region: 'WEUR', version: 'production' };
    }
    const database = this.databases.get(id);
    if (!database) throw new ApiError(404, 7404, 'The database could not be found');
    if (method === 'GET') return { uuid: id, name: database.name, version: 'production', file_size: 9_000_000 };
    if (action === 'query') return runSql(database.sqlite, json().sql);
    if (action === 'export') {
      return {
        success: true,
        messages: [],
        status: 'complete',
        at_bookmark: 'end',
        result: { filename: 'export.sql', signed_url: `${this.url}/exports/${id}` },
      };
    }
    throw new ApiError(404, 7003, `The fake platform has no ${method} ${path}`);
  }

  async #serveWorkers(method, path, json, body, type) {
    if (path === '/workers/subdomain') return { subdomain: 'tests' };
    if (path.startsWith('/workers/assets/upload')) return { jwt: jwt() };
    const [, , kind, name, action] = path.split('/');
    const worker = this.workers.get(name);
    const route = `${method} ${kind}/${action ?? ''}`;
    if (route === 'POST scripts/assets-upload-session') {
      const hashes = Object.values(json().manifest).map(({ hash }) => hash);
      return { jwt: jwt(), buckets: worker ? [] : [hashes] };
    }
    if (route === 'PUT scripts/' || route === 'POST scripts/versions') {
      const form = await parseForm(body, type);
      return this.upload(name, JSON.parse(String(form.get('metadata'))), method === 'PUT');
    }
    if (!worker) throw new ApiError(404, 10007, 'This Worker does not exist on your account.');
    switch (route) {
      case 'GET services/':
        return {
          id: name,
          default_environment: {
            environment: 'production',
            script: { tag: name, tags: [], last_deployed_from: 'wrangler', migration_tag: 'v1' },
          },
        };
      case 'GET scripts/secrets':
        return [...worker.secrets.keys()].map((key) => ({ name: key, type: 'secret_text' }));
      case 'GET scripts/deployments':
        return { deployments: worker.deployments.map(toDeployment).reverse() };
      case 'POST scripts/deployments':
        await this.#activate(worker, json().versions[0].version_id);
        return { id: randomUUID() };
      case 'GET scripts/versions':
        return { id: path.split('/').at(-1), metadata: authorAndTime(0) };
      case 'PUT scripts/secrets':
        worker.secrets.set(json().name, json().text);
        return this.onUpload(name, worker);
      case 'DELETE scripts/secrets':
        worker.secrets.delete(path.split('/').at(-1));
        return this.onUpload(name, worker);
      case 'POST scripts/tails':
        this.#tailFilters = json().filters;
        return { id: 'tail', url: this.url.replace('http', 'ws'), expires_at: authorAndTime(0).created_on };
      case 'DELETE scripts/tails':
        return null;
      case 'GET workers/':
        return { id: name, subdomain: { enabled: worker.isEnabled, previews_enabled: worker.isEnabled } };
      case 'POST scripts/subdomain':
        worker.isEnabled = true;
        return { enabled: true, previews_enabled: true };
      case 'PATCH scripts/script-settings':
      case 'GET scripts/schedules':
      case 'PUT scripts/schedules':
      case 'GET scripts/bindings':
        return {};
      default:
        throw new ApiError(404, 7003, `The fake platform has no ${method} ${path}`);
    }
  }

  /** Makes a version of a Worker get the requests. @param {Worker} worker @param {string} versionId */
  async #activate(worker, versionId) {
    worker.active = versionId;
    worker.deployments.push(versionId);
    await this.onActivate(versionId);
  }

  /**
   * Stores a version of a Worker, with the rules of the platform for its secrets.
   * @param {string} name
   * @param {Record<string, any>} metadata
   * @param {boolean} [isActivated] whether the version gets the requests at once
   */
  async upload(name, metadata, isActivated = true) {
    const worker = this.workers.get(name) ?? {
      versions: [],
      active: undefined,
      deployments: [],
      metadata,
      secrets: new Map(),
      isEnabled: false,
    };
    for (const { name: key, type, text, ...binding } of metadata.bindings) {
      if (type === 'secret_text') worker.secrets.set(key, text);
      if (type === 'inherit' && !worker.secrets.has(key))
        throw new ApiError(400, 10057, `inherit binding '${key}' is invalid: it does not exist`);
      if (type === 'd1' && !this.databases.has(binding.database_id ?? binding.id))
        throw new ApiError(400, 10021, `binding ${key} of type d1 must have a valid \`id\` specified`);
    }
    const id = randomUUID();
    worker.versions.push(id);
    worker.metadata = metadata;
    this.workers.set(name, worker);
    await this.onUpload(name, worker);
    if (isActivated) await this.#activate(worker, id);
    return { id, deployment_id: id.replaceAll('-', ''), startup_time_ms: 10, etag: 'etag', resources: { script: { etag: 'etag' } } };
  }
}

/** A deployment as the API describes it. @param {string} versionId @param {number} index */
const toDeployment = (versionId, index) => ({
  ...authorAndTime(index),
  id: versionId,
  versions: [{ version_id: versionId, percentage: 100 }],
});

/** A token as wrangler decodes it. */
function jwt() {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${encode({ alg: 'none' })}.${encode({ exp: Math.floor(Date.now() / 1000) + 3600 })}.`;
}

/** @param {Buffer} body @param {string} type */
const parseForm = (body, type) => new Response(/** @type {any} */ (body), { headers: { 'content-type': type } }).formData();

/** @param {unknown} result */
function resultAnswer(result) {
  const info = Array.isArray(result)
    ? { result_info: { count: result.length, page: 1, per_page: 100, total_count: result.length, total_pages: 1 } }
    : {};
  return { status: 200, body: { success: true, errors: [], messages: [], result, ...info } };
}

/** @param {any} error */
function errorAnswer({ status = 500, code = 10_013, message }) {
  return { status, body: { success: false, errors: [{ code, message }], messages: [], result: null } };
}

/** Runs statements as D1 does. @param {DatabaseSync} sqlite @param {string} sql */
function runSql(sqlite, sql) {
  try {
    const results = /^\s*(?:select|pragma)\b/i.test(sql) ? sqlite.prepare(sql).all() : (sqlite.exec(sql), []);
    return [{ results, success: true, meta: { duration: 1, rows_read: 0, rows_written: 0 } }];
  } catch (error) {
    throw new ApiError(400, 7500, error.message);
  }
}
