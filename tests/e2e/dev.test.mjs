/**
 * `npm run dev`: the sign-in link, the hub, and a second start in the same folder. When the command ends or is killed, no process is
 * left. The other tests start the runtime directly.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { findUpToDateBuild } from '../../scripts/build/build.mjs';
import { ROOT, TOOLS_DIR } from '../../scripts/lib/paths.mjs';
import { eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { freePort, start } from './lib/children.mjs';
import { openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { Web } from '../../scripts/product/clients/web.mjs';

/** Time limit for set-up, migrations and wrangler. A start that fails exits earlier. */
const START_TIMEOUT_MS = 240_000;

/** The inputs of the build, and files that wrangler watches. They are copied, so that edits do not affect the test. */
const COPIED_PATHS = [
  '.cargo',
  'scripts',
  'src',
  'migrations',
  'build',
  'web',
  'tools',
  'Cargo.toml',
  'Cargo.lock',
  'rust-toolchain.toml',
  'package.json',
  'package-lock.json',
  'wrangler.toml',
];

/** Folders with npm packages. */
const LINKED_FOLDERS = ['node_modules', 'tests', 'examples', 'packages'];

/** A mock of npm: runs the script in a shell, forwards signals to it, and exits with its exit code. */
const MOCK_NPM = `
  const [program, ...args] = process.argv.slice(1);
  const shell = require('node:child_process').spawn('/bin/sh', ['-c', '"$0" "$@"; exit $?', program, ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => shell.kill(signal));
  shell.on('exit', (code) => process.exit(code ?? 1));`;

/** A copy of the project with its own `.dev.vars`, database and lock. */
class Clone {
  #t;

  /** @param {{after: (step: () => unknown) => void}} t */
  constructor(t) {
    this.#t = t;
    this.folder = temporaryFolder(t);
    for (const name of COPIED_PATHS) cpSync(path.join(ROOT, name), path.join(this.folder, name), { recursive: true });
    for (const name of LINKED_FOLDERS) symlinkSync(path.join(ROOT, name), path.join(this.folder, name));
  }

  /** Runs `npm run dev -- --port PORT` in a shell, as npm does. @param {number} port */
  runDev(port) {
    const env = {
      HUB_TOOLS_DIR: TOOLS_DIR,
      NO_COLOR: '1',
      npm_lifecycle_event: 'dev',
      // This path does not exist, because a real npm would install packages through the link into the project.
      npm_execpath: path.join(this.folder, 'no', 'npm-cli.js'),
    };
    const command = [process.execPath, path.join(this.folder, 'scripts', 'dev', 'dev.mjs'), '--port', String(port)];
    return start(this.#t, 'npm run dev', process.execPath, ['-e', MOCK_NPM, ...command], { cwd: this.folder, env });
  }

  /**
   * Starts `npm run dev` and waits for its link.
   * @returns the processes, and the `url`, `token` and `web` of a `Hub`
   */
  async startDev(port) {
    const { lines, exited, kill } = this.runDev(port);
    const link = new URL((await lines.first((line) => line.includes('/pair#'), 'the link', START_TIMEOUT_MS)).trim());
    const [, secret] = /^ *Access token +(\S+)/.exec(await lines.first((line) => line.includes('Access token '), 'the token', 0));
    const [devPid] = this.#lockHolders();
    const { wranglerPid } = this;
    const token = (namespace) => (namespace === undefined ? secret : `${secret}:${namespace}`);
    const web = (namespace, secret = token(namespace)) => new Web({ url: link.origin, token: secret });
    const webWithoutToken = () => new Web({ url: link.origin, token: null });
    return { lines, exited, kill, link, devPid, wranglerPid, port, url: link.origin, token, web, webWithoutToken };
  }

  get lock() {
    return path.join(this.folder, '.wrangler', 'dev.lock');
  }

  get traces() {
    return path.join(this.folder, '.wrangler', 'state', 'v3', 'observability');
  }

  /** Returns the files below .wrangler that contain one of the texts. @param {string[]} texts */
  filesWith(texts) {
    const entries = readdirSync(path.join(this.folder, '.wrangler'), { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name));
    assert.ok(files.some((file) => file.endsWith('.sqlite')));
    return files.filter((file) => texts.some((text) => readFileSync(file).includes(text)));
  }

  get wranglerPid() {
    // The last two processes are wrangler and its guard.
    return this.#lockHolders().at(-2);
  }

  /** Returns the process ids in the lock. */
  #lockHolders() {
    return JSON.parse(readFileSync(this.lock, 'utf8')).processes.map(({ pid }) => pid);
  }
}

/** Whether the process group of wrangler has ended. @param {number} wranglerPid */
function hasEnded(wranglerPid) {
  try {
    process.kill(-wranglerPid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

// Skipped on Windows, which does not have the signals of these tests, and needs a privilege for symbolic links.
describe('npm run dev', { skip: process.platform === 'win32' }, () => {
  const suite = new Lifetime();
  after(() => suite.end());
  let clone;
  let port;
  let hub;

  before(async () => {
    assert.ok(findUpToDateBuild(true), 'The build is outdated. Run: npm run build');
    clone = new Clone(suite);
    // Files that an earlier version of the hub's commands left.
    mkdirSync(clone.traces, { recursive: true });
    writeFileSync(path.join(clone.traces, 'traces.sqlite'), 'GET /api/events?token=secret');
    port = await freePort();
    hub = await clone.startDev(port);
  });

  test('prints a link that signs a browser in once, and a token for the API', async () => {
    const web = hub.webWithoutToken();
    const page = await web.get(hub.link.pathname, { headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' } });
    assert.equal(page.status, 200);
    assert.match(page.text, /<div id="app">/);
    const body = { code: hub.link.hash.slice(1), name: 'Browser', kind: 'browser' };
    const redeemed = await web.post('/api/devices', body);
    assert.deepEqual([redeemed.status, redeemed.body.namespace], [200, 'default']);
    assert.equal((await web.post('/api/devices', body)).body.code, 'unknown_code');
    const list = await hub.web().get('/api/sessions');
    assert.deepEqual([list.status, list.body], [200, { sessions: [] }]);
  });

  test('serves the web console with its security policy, and the API', async () => {
    const navigation = { 'sec-fetch-mode': 'navigate', accept: 'text/html' };
    const page = await hub.webWithoutToken().get('/sessions/abc', { headers: navigation });
    assert.deepEqual([page.status, page.headers['cache-control']], [200, 'no-cache']);
    assert.match(page.text, /<div id="app">/);
    assert.match(page.headers['content-security-policy'], /script-src 'self' 'sha256-/);
    const [script] = page.text.match(/\/assets\/[^"]+\.js/);
    assert.match((await hub.webWithoutToken().get(script)).headers['cache-control'], /immutable/);
    assert.equal((await hub.webWithoutToken().get('/api/sessions', { headers: navigation })).body.code, 'unauthorized');
    assert.equal((await hub.web('team').get('/api/nothing', { headers: navigation })).body.code, 'not_found');
  });

  test('serves the hub: health, tokens, a session, a bridged socket, a message and an event', async (t) => {
    assert.equal((await hub.webWithoutToken().get('/health')).body.status, 'ok');
    assert.equal((await hub.webWithoutToken().get('/api/sessions')).status, 401);
    const auth = await hub.web('team').post('/api/auth', { accessToken: hub.token('team') });
    assert.equal(auth.status, 200, auth.text);
    const web = hub.web('team', auth.body.token);

    const { session, cli } = await liveSession(t, hub, { namespace: 'team', tag: '/code/dev' });
    const feed = await openFeed(t, web, 'stream', { sessionId: session.id });
    assert.deepEqual(pluck((await web.get('/api/sessions')).body.sessions, 'id', 'active'), [[session.id, true]]);

    const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'hello' });
    assert.equal(sent.body.message?.seq, 1, sent.text);
    assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'hello');
    assert.equal((await cli.sendMessage(session.id, { role: 'agent', content: 'hi' })).seq, 2);
    const seqs = [await feed.nextEvent('message-received'), await feed.nextEvent('message-received')].map(({ message }) => message.seq);
    assert.deepEqual(seqs, [1, 2]);
    assert.equal((await web.readHistory(session.id)).length, 2);
  });

  test('answers a refused upload of 51 MB, although wrangler’s proxy forwards the request', async (t) => {
    const web = hub.web('uploads');
    const { session, cli } = await liveSession(t, hub, { namespace: 'uploads', tag: '/code/uploads' });
    await cli.serve('uploadFile', () => ({ success: true }));
    const inactive = await web.openSession({ tag: '/code/inactive' });
    const content = Buffer.alloc(51 * 1024 * 1024).toString('base64');
    const raw = JSON.stringify({ filename: 'a.bin', mimeType: 'application/octet-stream', content });
    const upload = (client, sessionId) => client.post(`/api/sessions/${sessionId}/upload`, undefined, { raw });
    const answers = [];
    for (const sessionId of [session.id, inactive.id, 'none']) answers.push(await upload(web, sessionId));
    answers.push(await upload(hub.webWithoutToken(), session.id));
    const expected = [
      [413, 'too_large'],
      [409, 'session_inactive'],
      [404, 'session_not_found'],
      [401, 'unauthorized'],
    ];
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body?.code]),
      expected,
    );
    assert.equal((await web.get(`/api/sessions/${session.id}`)).status, 200);
  });

  test('does not run twice in a folder, and names the running hub', async () => {
    const second = clone.runDev(await freePort());
    await second.lines.first(
      (line) => line === `A hub is already running in this folder: http://127.0.0.1:${port} (process ${hub.devPid}).`,
      'the error',
    );
    assert.deepEqual(await withTimeout(second.exited, 'its end'), [1, null]);
  });

  test('reports whether a hub or another program uses its port', async (t) => {
    const otherClone = new Clone(t);
    const startError = async (usedPort) => {
      const { lines, exited } = otherClone.runDev(usedPort);
      const error = await lines.first((line) => line.startsWith('Port '), 'the error');
      assert.deepEqual(await withTimeout(exited, 'its end'), [1, null]);
      return error;
    };
    assert.equal(await startError(port), `Port ${port} is in use by a hub, such as a hub in another folder.`);
    const other = net.createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    const usedPort = /** @type {import('node:net').AddressInfo} */ (other.address()).port;
    assert.equal(await startError(usedPort), `Port ${usedPort} is in use by another program.`);
  });

  test('can be started again after the npm that ran it was killed', async () => {
    await hub.kill();
    hub = await clone.startDev(port);
    assert.equal((await hub.web().get('/api/sessions')).status, 200);
  });

  test('can be started again after its process and wrangler were killed: no process is left running, and no data is lost', async () => {
    const body = { tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop' } };
    const { session } = (await hub.web().post('/cli/sessions', body)).body;
    const { wranglerPid } = hub;
    process.kill(wranglerPid, 'SIGKILL');
    process.kill(hub.devPid, 'SIGKILL');
    assert.deepEqual(await withTimeout(hub.exited, 'its end'), [137, null]);
    hub = await clone.startDev(port);
    assert.ok(hasEnded(wranglerPid));
    assert.deepEqual(pluck((await hub.web().get('/api/sessions')).body.sessions, 'id'), [session.id]);
  });

  test('restarts wrangler after its runtime was killed and does not answer', async () => {
    const before = (await hub.web().get('/api/sessions')).body.sessions;
    const runtimes = execFileSync('ps', ['-ax', '-o', 'pid=,command='], { encoding: 'utf8' }).split('\n');
    const [runtime] = runtimes.filter((line) => line.includes(`workerd serve`) && line.includes(`:${port} `)).map(Number.parseFloat);
    process.kill(runtime, 'SIGKILL');
    await hub.lines.next((line) => line.includes('Restarting it'), 'the restart', 60_000);
    const answer = await eventually(
      () =>
        hub
          .web()
          .get('/api/sessions')
          .catch(() => undefined),
      'an answer',
      60_000,
    );
    assert.deepEqual(pluck(answer.body.sessions, 'id'), pluck(before, 'id'));
    hub.wranglerPid = clone.wranglerPid;
  });

  test('serves clients that send their token in the address, and does not serve its database without a token', async (t) => {
    const { session } = await liveSession(t, hub, { namespace: 'addresses', tag: '/code/addresses', tokenIn: 'query' });
    await liveSession(t, hub, { namespace: 'addresses', tag: '/code/header', tokenIn: 'header' });
    for (const channel of ['stream', 'socket']) {
      await openFeed(t, hub.web('addresses'), channel, { sessionId: session.id }, { tokenInQuery: true });
    }
    assert.equal((await hub.webWithoutToken().get('/cdn-cgi/explorer/api/d1/database')).status, 404);
  });

  test('ends with all its processes on Ctrl-C', async () => {
    process.kill(hub.devPid, 'SIGINT');
    assert.deepEqual(await withTimeout(hub.exited, 'its end'), [0, null]);
    await eventually(() => hasEnded(hub.wranglerPid), 'the end of all processes');
    assert.equal(existsSync(clone.lock), false);
  });

  test('has written no token below .wrangler, and has deleted the traces of an earlier version', () => {
    assert.deepEqual(clone.filesWith([hub.token(), 'token=']), []);
    assert.equal(existsSync(clone.traces), false);
  });
});
