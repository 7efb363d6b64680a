// How the commands find the hub of this computer: without an address, it is the hub that runs with the data of the folder.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { DEFAULT_HUB } from '../../packages/cli-kit/src/hub-address.mjs';
import { tryLock } from '../../packages/cli-kit/src/lock.mjs';
import { inProject } from '../lib/paths.mjs';
import { findLocalHub } from '../product/hub/local-hub.mjs';
import { startServer } from './support/fake-server.mjs';

/**
 * Creates a data folder with the secret of a hub, and an installed npm package whose commands read this folder. Returns a function that runs a
 * command without the address of a hub.
 * @param {import('node:test').TestContext} t
 */
function installPackage(t) {
  const folder = tempDir(t);
  const data = path.join(folder, 'data');
  mkdirSync(path.join(data, '.wrangler'), { recursive: true });
  writeFileSync(path.join(data, '.dev.vars'), 'CLI_API_TOKEN=secret\n', { mode: 0o600 });
  for (const name of ['scripts', 'packages', 'cli', 'node_modules', 'package.json']) symlinkSync(inProject(name), path.join(folder, name));
  /** @param {string} command @param {string[]} args @param {Record<string, string>} [variables] */
  const run = async (command, args = [], variables = {}) => {
    const { HUB_URL: _, CLI_API_TOKEN: _token, ...inherited } = process.env;
    const env = { ...inherited, HUB_DATA_DIR: data, SESSION_GATEWAY_HOME: path.join(folder, 'home'), ...variables };
    const script = path.join(folder, 'scripts', 'product', `${command}.mjs`);
    const child = spawn(process.execPath, ['--preserve-symlinks', '--preserve-symlinks-main', script, ...args], { env, cwd: folder });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { code, stdout, stderr };
  };
  return { data, run };
}

/** Starts a hub that refuses all requests but `/health`, and locks the data folder as a hub does. @returns {Promise<Set<string>>} the requests */
async function startHub(t, data) {
  const requests = new Set();
  const { url } = await startServer(t, async (request, response) => {
    const body = await text(request);
    requests.add(`${request.url} ${request.headers.authorization ?? body}`);
    response.writeHead(request.url === '/health' ? 200 : 403, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(request.url === '/health' ? { status: 'ok', version: '0.2.0', protocolVersion: 1 } : { error: 'Refused.' }),
    );
  });
  const { lock } = tryLock(path.join(data, '.wrangler', 'dev.lock'), { address: url });
  t.after(() => lock?.release());
  return requests;
}

test('the address of the local hub is that of the running hub, and else the one at which a hub listens by default', (t) => {
  const file = path.join(tempDir(t), 'dev.lock');
  assert.equal(findLocalHub(file), DEFAULT_HUB);
  const { lock } = tryLock(file, { address: 'http://127.0.0.1:9000' });
  assert.equal(findLocalHub(file), 'http://127.0.0.1:9000');
  lock?.release();
  assert.equal(findLocalHub(file), DEFAULT_HUB);
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(file, JSON.stringify({ id: 'stale', processes: [{ pid, startTime: '' }], details: { address: 'http://127.0.0.1:9001' } }));
  assert.equal(findLocalHub(file), DEFAULT_HUB, 'the hub was killed');
});

test('commands without an address find the hub that runs on another port, with the token of the data folder', async (t) => {
  const { data, run } = installPackage(t);
  const requests = await startHub(t, data);
  for (const [command, args, expected] of /** @type {[string, string[], RegExp][]} */ ([
    ['smoke', ['--quick'], /^\/api\/auth \{"accessToken":"[\w-]+:smoke"/],
    ['status', [], /^\/api\/status Bearer secret$/],
    ['devices', [], /^\/api\/devices Bearer secret$/],
    ['namespace', ['delete', 'team', '--yes'], /^\/api\/namespaces\/\S+ Bearer secret:team$/],
    ['databases', ['list'], /^\/api\/namespaces\/\S+ Bearer secret:\S+$/],
    ['token', ['team', '--revoke'], /^\/api\/namespaces\/revoke Bearer secret:team$/],
  ])) {
    requests.clear();
    const { code, stdout, stderr } = await run(command, args);
    const description = `${command}: ${[...requests]}\n${stdout}${stderr}`;
    assert.deepEqual([code, [...requests].some((request) => expected.test(request))], [1, true], description);
  }
  const { stdout } = await run('doctor');
  assert.match(stdout, /^problem +hub +Version 0\.2\.0 answers at /m);
});

test('HUB_URL is another default than the local hub', async (t) => {
  const { data, run } = installPackage(t);
  const requests = await startHub(t, data);
  const { url } = await startServer(t, (_request, response) => response.writeHead(403).end('{"error":"Refused there."}'));
  for (const command of ['status', 'devices']) {
    const { stderr } = await run(command, [], { HUB_URL: url });
    assert.match(stderr, /The hub answered 403: Refused there\./);
  }
  assert.match((await run('smoke', ['--quick'], { HUB_URL: url })).stdout, /status 403: Refused there\./);
  const { url: prefixed } = await startServer(t, ({ url: path }, response) => {
    response.end(path === '/hub/health' ? '{"version":"0.3.0","protocolVersion":1}' : '{}');
  });
  for (const ask of [() => run('doctor', [], { HUB_URL: `${prefixed}/hub` }), () => run('doctor', ['--hub', `${prefixed}/hub`])])
    assert.ok((await ask()).stdout.includes(`Version 0.3.0 answers at ${prefixed}/hub`));
  assert.deepEqual([...requests], []);
});

test('without a hub, the commands say how to start it', async (t) => {
  const { data, run } = installPackage(t);
  const server = await startServer(t, () => {});
  const { lock } = tryLock(path.join(data, '.wrangler', 'dev.lock'), { address: server.url });
  t.after(() => lock?.release());
  server.stop();
  for (const [command, args] of /** @type {[string, string[]][]} */ ([
    ['smoke', ['--quick']],
    ['status', []],
    ['devices', []],
    ['namespace', ['delete', 'team', '--yes']],
  ])) {
    const { code, stdout, stderr } = await run(command, args);
    assert.equal(code, 1);
    assert.match(
      stdout + stderr,
      /If it is not running, start it with `npx session-gateway-hub`, or name another hub with --hub\.$/m,
      command,
    );
    assert.ok((stdout + stderr).includes(server.url.slice('http://'.length)), command);
  }
});

test('doctor says that another computer’s hub does not answer, and sends it no token', async (t) => {
  const { run } = installPackage(t);
  const { stdout, code } = await run('doctor', ['--hub', 'http://hub.invalid']);
  assert.match(stdout, /^problem +hub +No hub answers at http:\/\/hub\.invalid\. /m);
  assert.doesNotMatch(stdout, / port /, 'the port of this computer does not matter');
  assert.equal(code, 1);
});

test('a data folder that cannot be made ends the start at once, with advice', { skip: process.platform !== 'linux' }, async (t) => {
  const { run } = installPackage(t);
  const { code, stderr } = await run('start', [], { HUB_DATA_DIR: '/proc/hub/data' });
  assert.equal(code, 1);
  assert.match(stderr, /^The folder \/proc\/hub for the data of the hub cannot be made: E\w+\.\nChoose another folder with --data DIR/m);
});
