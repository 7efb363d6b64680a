/** Runs `npm run deploy` from the files of the npm package, with the real wrangler and a fake of the platform's API. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { HUB_FILES } from '../../../scripts/dev/package/files.mjs';
import { inProject } from '../../../scripts/lib/paths.mjs';
import { ACCOUNT, API_TOKEN, FakePlatform } from './fake-platform.mjs';
import { SECRET } from './hub.mjs';

export const NAME = 'session-gateway-hub';
export const { version: VERSION } = JSON.parse(readFileSync(inProject('package.json'), 'utf8'));
export const MIGRATIONS = readdirSync(inProject('migrations')).filter((name) => name.endsWith('.sql'));

/** Creates a folder that is removed after the tests. */
function makeFolder(prefix) {
  const folder = mkdtempSync(path.join(tmpdir(), prefix));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The files of the npm package. It has no Rust and no git. */
export const PACKAGE = makeFolder('hub-package-');
for (const file of [...HUB_FILES, 'package.json']) cpSync(inProject(file), path.join(PACKAGE, file), { recursive: true });
symlinkSync(inProject('node_modules'), path.join(PACKAGE, 'node_modules'));

/** Starts a fake platform with an empty data folder. */
export async function startPlatform(t) {
  const platform = await new FakePlatform().start();
  t.after(() => platform.stop());
  return { platform, data: makeFolder('hub-data-') };
}

/** Starts a server that only reports its health, as a hub does. */
export async function startHealth(t) {
  const server = http.createServer((request, response) => {
    const isHealth = request.url.startsWith('/health');
    response.writeHead(isHealth ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isHealth ? { status: 'ok', version: VERSION } : { error: 'No such route.', code: 'not_found' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
}

/**
 * Starts a proxy in front of a hub. The proxy decides which version the hub reports, and whether the hub works.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string} hub
 */
async function startFront(t, hub) {
  const front = { url: '', version: VERSION, isBroken: false };
  const openForwardedRequest = (request) => http.request(`${hub}${request.url}`, { method: request.method, headers: request.headers });
  const server = http.createServer((request, response) => {
    if (request.url.startsWith('/health') || front.isBroken) {
      const [status, body] = request.url.startsWith('/health')
        ? [200, { status: 'ok', protocolVersion: 1, version: front.version, database: 'ok' }]
        : [500, { error: 'The test broke the hub.', code: 'hub_unavailable' }];
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
      return;
    }
    const forwarded = openForwardedRequest(request);
    forwarded.on('response', (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  });
  server.on('upgrade', (request, socket) => {
    if (front.isBroken) return socket.destroy();
    const forwarded = openForwardedRequest(request);
    forwarded.on('upgrade', ({ rawHeaders }, upstream, first) => {
      const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : []));
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
      socket.write(first);
      upstream.pipe(socket).pipe(upstream);
      for (const side of [socket, upstream]) side.on('error', () => upstream.destroy() && socket.destroy());
    });
    forwarded.on('error', () => socket.destroy());
    return forwarded.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  front.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  return front;
}

/** Records in a database that it has migrations, as wrangler does. @param {import('node:sqlite').DatabaseSync} sqlite @param {string[]} names */
export function recordMigrations(sqlite, names) {
  sqlite.exec(`CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,
    applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`);
  for (const name of names) sqlite.prepare('INSERT INTO d1_migrations (name) VALUES (?)').run(name);
}

/**
 * Adds a deployed hub to a platform.
 * @param {{platform: FakePlatform, data: string}} place
 * @param {{address: string, secret: string, missing?: number}} hub `missing`: how many of the newest migrations its database does not have
 * @returns {string} the platform's id of its version
 */
function addDeployedHub({ platform, data }, { address, secret, missing = 0 }) {
  const databaseId = platform.addDatabase(NAME);
  const { sqlite } = platform.databases.get(databaseId);
  const names = MIGRATIONS.slice(0, MIGRATIONS.length - missing);
  for (const name of names) sqlite.exec(readFileSync(inProject('migrations', name), 'utf8'));
  recordMigrations(sqlite, names);
  const versionId = randomUUID();
  platform.addWorker(NAME, { CLI_API_TOKEN: secret }, [versionId]);
  writeFileSync(path.join(data, 'deployment.json'), JSON.stringify({ production: { accountId: ACCOUNT.id, databaseId, address } }));
  return versionId;
}

/** Returns the migrations that the database has, oldest first. @param {FakePlatform} platform */
export function appliedMigrations(platform) {
  const [{ sqlite }] = platform.databases.values();
  return sqlite
    .prepare('SELECT name FROM d1_migrations ORDER BY id')
    .all()
    .map(({ name }) => name);
}

/** The environment of commands of the package. @param {{platform: FakePlatform, data: string}} place */
export const environmentOf = ({ platform, data }) => ({
  CI: undefined,
  CLI_API_TOKEN: undefined,
  HUB_DATA_DIR: data,
  CLOUDFLARE_API_BASE_URL: platform.url,
  CLOUDFLARE_API_TOKEN: API_TOKEN,
  WRANGLER_LOG_PATH: path.join(data, 'logs'),
});

/**
 * Runs a command of the package.
 * @param {{platform: FakePlatform, data: string}} place
 * @param {string[]} args
 * @param {{env?: Record<string, string | undefined>, killAfter?: Promise<unknown>}} [options] `killAfter`: when it resolves, the command is killed
 * @returns {Promise<{code: number | null, output: string}>}
 */
export async function run(place, args, { env = {}, killAfter } = {}) {
  const child = spawn(process.execPath, [path.join(PACKAGE, 'scripts', 'product', 'cli.mjs'), ...args], {
    env: { ...process.env, ...environmentOf(place), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  killAfter?.then(() => child.kill('SIGKILL'));
  const [code] = await once(child, 'close');
  return { code, output };
}

/** Returns how often a text contains a value. @param {string} text @param {string} value */
const countOccurrences = (text, value) => text.split(value).length - 1;

export const readDeployments = (data) => JSON.parse(readFileSync(path.join(data, 'deployment.json'), 'utf8'));

/** Checks that a deployment is complete. Returns its secret. */
export function assertDeployed({ platform, data }, outputs) {
  assert.equal(platform.databases.size, 1, 'there is one database');
  const [id] = platform.databases.keys();
  assert.equal(readDeployments(data).production.databaseId, id);
  assert.deepEqual(appliedMigrations(platform), MIGRATIONS);
  const worker = platform.workers.get(NAME);
  assert.equal(worker.metadata.bindings.find(({ name }) => name === 'DB').id, id);
  const secret = worker.secrets.get('CLI_API_TOKEN');
  assert.match(secret, /^[0-9a-f]{48}$/);
  assert.equal(countOccurrences(outputs.join(''), secret), 1, 'the secret was printed once');
  return secret;
}

/** The version that is deployed before an upgrade. The changelog has a section of a later version. */
export const OLD_VERSION = '0.1.0';

/**
 * Deploys the old version, with a database that lacks the newest migration. The proxy `front` answers as the version that is active.
 * @param {any} t
 * @param {string} hubUrl
 * @param {{isNewBroken?: boolean}} [options] `isNewBroken`: whether the new version does not work
 */
export async function setUpUpgrade(t, hubUrl, { isNewBroken = false } = {}) {
  const place = await startPlatform(t);
  const front = await startFront(t, hubUrl);
  front.version = OLD_VERSION;
  const versionId = addDeployedHub(place, { address: front.url, secret: SECRET, missing: 1 });
  place.platform.onActivate = (id) =>
    Object.assign(front, id === versionId ? { version: OLD_VERSION, isBroken: false } : { version: VERSION, isBroken: isNewBroken });
  // `npx --yes`, which installs the package without a question, sets the second variable.
  const env = { CLI_API_TOKEN: SECRET, npm_config_yes: 'true' };
  const upgrade = (...args) => run(place, ['upgrade', ...args], { env });
  return { ...place, front, versionId, upgrade, worker: place.platform.workers.get(NAME) };
}
