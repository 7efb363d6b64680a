/**
 * `npm run deploy`, from the files of the npm package, with the real wrangler and a fake of the platform's API: deploys, updates,
 * and continues after a failure or a kill at each step.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { HUB_FILES } from '../../scripts/lib/package/files.mjs';
import { inProject } from '../../scripts/lib/paths.mjs';
import { ACCOUNT, API_TOKEN, FakePlatform } from './lib/fake-platform.mjs';
import { startHub } from './lib/hub.mjs';

const NAME = 'session-gateway-hub';
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
async function startPlatform(t) {
  const platform = await new FakePlatform().start();
  t.after(() => platform.stop());
  return { platform, data: makeFolder('hub-data-') };
}

/** Starts a server that only reports its health, as a hub does. */
async function startHealth(t) {
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
async function run({ platform, data }, args, { env = {}, killAfter } = {}) {
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

const readDeployments = (data) => JSON.parse(readFileSync(path.join(data, 'deployment.json'), 'utf8'));

/** Checks what a complete deployment is. */
function assertDeployed({ platform, data }, outputs) {
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

/** A request of each step, in their order. */
const STEPS = [
  { step: 'account', on: 'GET /accounts', status: 500 },
  { step: 'database', on: 'GET /d1/database', status: 403 },
  { step: 'database', on: 'POST /d1/database', status: 429 },
  { step: 'access token', on: `GET /workers/scripts/${NAME}/secrets`, status: 403 },
  // Some migrations are applied before.
  { step: 'migrations', on: 'POST /d1/database/', skip: 6, status: 500 },
  { step: 'deployment', on: `POST /workers/scripts/${NAME}/assets-upload-session`, status: 403 },
  { step: 'deployment', on: `PUT /workers/scripts/${NAME}`, status: 400 },
];

describe('npm run deploy', { concurrency: 3 }, () => {
  test('deploys a hub, tests it, and prints its secret once; a second run is an update', async (t) => {
    const place = await startPlatform(t);
    const hub = await startHub();
    t.after(() => hub.stop());
    place.platform.onUpload = (_, { secrets }) => hub.restart({ CLI_API_TOKEN: secrets.get('CLI_API_TOKEN') });

    const first = await run(place, ['deploy', '--address', hub.url]);
    assert.equal(first.code, 0, first.output);
    const secret = assertDeployed(place, [first.output]);
    assert.match(first.output, /✓ smoke test .*\n +13 checks\n/);
    assert.ok(first.output.includes(`The hub is deployed: ${hub.url}`));
    assert.match(first.output, /npx session-gateway-hub wrangler rollback\n/);
    const [, link] = /Open the console, signed in.*:\n +(\S+)\n/.exec(first.output);
    assert.ok(link.startsWith(`${hub.url}/`));
    assert.ok(!link.includes(secret), 'the link opens one namespace only');

    const files = readdirSync(place.data, { recursive: true, encoding: 'utf8' }).filter((name) =>
      statSync(path.join(place.data, name)).isFile(),
    );
    const withSecret = files.filter((name) => readFileSync(path.join(place.data, name), 'utf8').includes(secret));
    assert.deepEqual(withSecret, [], 'no file has the secret');

    const second = await run(place, ['deploy']);
    assert.equal(second.code, 0, second.output);
    assertDeployed(place, [first.output, second.output]);
    assert.match(second.output, new RegExp(`${NAME} exists\\n[^]*CLI_API_TOKEN is set\\n[^]*the database has all\\n[^]*8 checks\\n`));
    assert.equal(place.platform.workers.get(NAME).versions.length, 2);
  });

  test('continues after a failure at each step', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const outputs = [];
    for (const { step, ...fault } of STEPS) {
      const failed = place.platform.failOn(fault);
      const { code, output } = await run(place, ['deploy', '--no-smoke', '--address', address]);
      outputs.push(output);
      assert.equal(code, 1, output);
      await failed;
      assert.ok(output.includes(`The step "${step}" failed. Run the same command again: it continues there.`), output);
      place.platform.recover();
    }
    const { code, output } = await run(place, ['deploy', '--no-smoke']);
    assert.equal(code, 0, output);
    assertDeployed(place, [...outputs, output]);
    assert.equal(place.platform.workers.get(NAME).versions.length, 1);
  });

  test('continues after a kill at each step, also when the platform had served the request', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const outputs = [];
    const secrets = new Set();
    place.platform.onUpload = (_, worker) => secrets.add(worker.secrets.get('CLI_API_TOKEN'));
    for (const { step: _, status: __, ...fault } of STEPS) {
      const { code, output } = await run(place, ['deploy', '--no-smoke', '--address', address], {
        killAfter: place.platform.failOn(fault),
      });
      outputs.push(output);
      assert.equal(code, null, output);
      place.platform.recover();
    }
    const { code, output } = await run(place, ['deploy', '--no-smoke']);
    assert.equal(code, 0, output);
    assertDeployed(place, [...outputs, output]);
    assert.equal(secrets.size, 1, 'the secret was never replaced');
  });

  test('deploys an environment beside production, and runs commands of wrangler for the one that is named', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const deploy = (...args) =>
      run(place, ['deploy', '--no-smoke', '--address', address, ...args], { env: { CLOUDFLARE_ACCOUNT_ID: ACCOUNT.id } });
    for (const args of [[], ['--env', 'staging', '--location', 'weur']]) {
      const { code, output } = await deploy(...args);
      assert.equal(code, 0, output);
    }
    const { platform, data } = place;
    assert.deepEqual(
      [...platform.databases.values()].map(({ name, options }) => [name, options.primary_location_hint]),
      [
        [NAME, undefined],
        [`${NAME}-staging`, 'weur'],
      ],
    );
    const [production, staging] = [NAME, `${NAME}-staging`].map((name) => platform.workers.get(name));
    const bindingOf = (worker, name) => worker.metadata.bindings.find((binding) => binding.name === name);
    assert.equal(bindingOf(staging, 'HUB_LOCATION').text, 'weur');
    for (const name of ['DB', 'AUTH_RATE_LIMIT']) assert.notDeepEqual(bindingOf(staging, name), bindingOf(production, name));
    assert.notEqual(staging.secrets.get('CLI_API_TOKEN'), production.secrets.get('CLI_API_TOKEN'));
    assert.deepEqual(readDeployments(data).staging.vars, { HUB_LOCATION: 'weur' });

    platform.requests.length = 0;
    const listed = await run(place, ['wrangler', 'secret', 'list', '--env', 'staging']);
    assert.equal(listed.code, 0, listed.output);
    assert.deepEqual(platform.requests, [`GET /workers/scripts/${NAME}-staging/secrets`]);
    const unknown = await run(place, ['wrangler', 'secret', 'list', '--env', 'other']);
    assert.equal(unknown.code, 1);
    assert.match(unknown.output, /There is no environment other: wrangler would use the settings and the database of production\./);
    assert.equal(platform.requests.length, 1);

    for (const [args, reason] of /** @type {[string[], RegExp][]} */ ([
      [['--name', 'other'], /deployed with the name session-gateway-hub\./],
      [['--account', 'f'.repeat(32)], /deployed in the account ac0ac0/],
      [['--jurisdiction', 'eu'], /database session-gateway-hub exists already\. Its place cannot be changed\./],
    ])) {
      const { code, output } = await deploy(...args);
      assert.equal(code, 1);
      assert.match(output, reason);
    }
    assert.equal(platform.databases.size, 2);
  });

  test('two runs at the same time deploy one hub', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const args = ['deploy', '--no-smoke', '--address', address];
    const runs = await Promise.all([run(place, args), run(place, args)]);
    for (const { code, output } of runs) assert.equal(code, 0, output);
    assertDeployed(
      place,
      runs.map(({ output }) => output),
    );
    assert.match(runs.map(({ output }) => output).join(''), /Waiting for process \d+, which runs the deployment of production/);
  });

  test('a dry run needs no network, account or data', async (t) => {
    const place = await startPlatform(t);
    const { code, output } = await run(place, ['deploy', '--dry-run', '--env', 'staging'], { env: { CLOUDFLARE_API_TOKEN: undefined } });
    assert.equal(code, 0, output);
    assert.match(output, /Nothing was uploaded\./);
    assert.deepEqual(place.platform.requests, []);
  });

  test('says what is missing without a login, with several accounts, and without a secret on a CI machine', async (t) => {
    const place = await startPlatform(t);
    // Without the user's own login.
    const nobody = await run(place, ['deploy'], {
      env: { CLOUDFLARE_API_TOKEN: undefined, HOME: place.data, XDG_CONFIG_HOME: place.data },
    });
    assert.equal(nobody.code, 1);
    assert.match(nobody.output, /Nobody is signed in to Cloudflare/);

    const other = { id: 'b'.repeat(32), name: 'Another account' };
    place.platform.accounts = [ACCOUNT, other];
    const several = await run(place, ['deploy']);
    assert.equal(several.code, 1);
    assert.match(several.output, new RegExp(`several accounts:\\n +${ACCOUNT.id} +${ACCOUNT.name}\\n[^]*--account ID`));

    const onCi = await run(place, ['deploy', '--account', ACCOUNT.id], { env: { CI: 'true' } });
    assert.equal(onCi.code, 1);
    assert.match(onCi.output, /A generated one would be in the log/);
    assert.equal(place.platform.workers.size, 0);
  });

  test('says what is wrong in deployment.json', async (t) => {
    const place = await startPlatform(t);
    for (const [text, reason] of /** @type {[string, RegExp][]} */ ([
      ['{', /deployment\.json is not JSON/],
      ['{"production": {"database": "x"}}', /`production\.database` is unknown/],
      ['{"production": {"vars": "x"}}', /`production\.vars` must be an object/],
    ])) {
      writeFileSync(path.join(place.data, 'deployment.json'), text);
      const { code, output } = await run(place, ['deploy']);
      assert.equal(code, 1);
      assert.match(output, reason);
    }
  });
});
