/** Runs `npm run deploy` from the files of the npm package, with the real wrangler and a fake of the platform's API. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { HUB_FILES } from '../../../scripts/lib/package/files.mjs';
import { inProject } from '../../../scripts/lib/paths.mjs';
import { API_TOKEN, FakePlatform } from './fake-platform.mjs';

export const NAME = 'session-gateway-hub';
const { version: VERSION } = JSON.parse(readFileSync(inProject('package.json'), 'utf8'));
const MIGRATIONS = readdirSync(inProject('migrations')).filter((name) => name.endsWith('.sql'));

/** Creates a folder that is removed after the tests. */
function makeFolder(prefix) {
  const folder = mkdtempSync(path.join(tmpdir(), prefix));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The files of the npm package. It has no Rust and no git. */
const PACKAGE = makeFolder('hub-package-');
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
 * Runs a command of the package.
 * @param {{platform: FakePlatform, data: string}} place
 * @param {string[]} args
 * @param {{env?: Record<string, string | undefined>, killAfter?: Promise<unknown>}} [options] `killAfter`: SIGKILL then
 * @returns {Promise<{code: number | null, output: string}>}
 */
export async function run({ platform, data }, args, { env = {}, killAfter } = {}) {
  const child = spawn(process.execPath, [path.join(PACKAGE, 'scripts', 'cli.mjs'), ...args], {
    env: {
      ...process.env,
      CI: undefined,
      CLI_API_TOKEN: undefined,
      HUB_DATA_DIR: data,
      CLOUDFLARE_API_BASE_URL: platform.url,
      CLOUDFLARE_API_TOKEN: API_TOKEN,
      WRANGLER_LOG_PATH: path.join(data, 'logs'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  killAfter?.then(() => child.kill('SIGKILL'));
  const [code] = await once(child, 'close');
  return { code, output };
}

/** How often a text contains a value. @param {string} text @param {string} value */
const count = (text, value) => text.split(value).length - 1;

export const readDeployments = (data) => JSON.parse(readFileSync(path.join(data, 'deployment.json'), 'utf8'));

/** Checks what a complete deployment is. */
export function assertDeployed({ platform, data }, outputs) {
  assert.equal(platform.databases.size, 1, 'there is one database');
  const [[id, { sqlite }]] = platform.databases;
  assert.equal(readDeployments(data).production.databaseId, id);
  assert.deepEqual(
    sqlite
      .prepare('SELECT name FROM d1_migrations ORDER BY id')
      .all()
      .map(({ name }) => name),
    MIGRATIONS,
  );
  const worker = platform.workers.get(NAME);
  assert.equal(worker.metadata.bindings.find(({ name }) => name === 'DB').id, id);
  const secret = worker.secrets.get('CLI_API_TOKEN');
  assert.match(secret, /^[0-9a-f]{48}$/);
  assert.equal(count(outputs.join(''), secret), 1, 'the secret was printed once');
  return secret;
}
