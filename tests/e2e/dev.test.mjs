/**
 * `npm run dev` as a person starts it: its link, the hub behind it, a second one beside it, and that nothing of it is left,
 * however it ends. Everything else is tested on the runtime alone.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findUpToDateBuild } from '../../scripts/build.mjs';
import { ROOT, TOOLS_DIR } from '../../scripts/lib/paths.mjs';
import { eventually, withTimeout } from './lib/await.mjs';
import { freePort, start } from './lib/children.mjs';
import { liveSession } from './lib/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { Web } from './lib/web.mjs';

/** How long set-up, the migrations and wrangler may take together; a start that fails ends by itself before. */
const START_MS = 240_000;

/** What a start looks at and what wrangler watches: copied, so that an edit meanwhile changes nothing of this. */
const COPIED = [
  '.cargo', 'scripts', 'src', 'migrations', 'build', 'web', 'tools',
  'Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml', 'package.json', 'package-lock.json', 'wrangler.toml',
];

/** Where packages are. */
const LINKED = ['node_modules', 'tests', 'examples'];

/** What npm does of a script: starts a shell with it, hands signals on to that, and ends with its exit code. */
const NPM = `
  const [program, ...args] = process.argv.slice(1);
  const shell = require('node:child_process').spawn('/bin/sh', ['-c', '"$0" "$@"; exit $?', program, ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => shell.kill(signal));
  shell.on('exit', (code) => process.exit(code ?? 1));`;

/** The project once more, with a `.dev.vars`, a database and a lock of its own. */
class Clone {
  #t;

  /** @param {{after: (step: () => unknown) => void}} t */
  constructor(t) {
    this.#t = t;
    this.folder = temporaryFolder(t);
    for (const name of COPIED) cpSync(path.join(ROOT, name), path.join(this.folder, name), { recursive: true });
    for (const name of LINKED) symlinkSync(path.join(ROOT, name), path.join(this.folder, name));
  }

  /** `npm run dev -- --port PORT`, as npm starts it: through a shell. @param {number} port */
  dev(port) {
    const env = {
      HUB_TOOLS_DIR: TOOLS_DIR,
      NO_COLOR: '1',
      npm_lifecycle_event: 'dev',
      // Through the link an npm that is started here would empty the project's own packages: there is none.
      npm_execpath: path.join(this.folder, 'no', 'npm-cli.js'),
    };
    const command = [process.execPath, path.join(this.folder, 'scripts', 'dev.mjs'), '--port', String(port)];
    return start(this.#t, 'npm run dev', process.execPath, ['-e', NPM, ...command], { cwd: this.folder, env });
  }

  /**
   * The same, and waits for its link.
   * @returns the hub as the clients of `lib` take it, without a namespace with the link's own token; and its processes
   */
  async running(port) {
    const { lines, exited, kill } = this.dev(port);
    const link = new URL(await lines.first((line) => line.includes('#token='), 'the link', START_MS));
    const [dev] = this.#holders();
    const { wrangler } = this;
    const secret = link.hash.replace('#token=', '');
    const token = (namespace) => (namespace === undefined ? secret : `${secret}:${namespace}`);
    const web = (namespace, shown = token(namespace)) => new Web({ url: link.origin, token: shown });
    return { lines, exited, kill, link, dev, wrangler, port, url: link.origin, token, web };
  }

  get lock() {
    return path.join(this.folder, '.wrangler', 'dev.lock');
  }

  get wrangler() {
    // The last two are wrangler and its guard.
    return this.#holders().at(-2);
  }

  /** The process ids in the lock. */
  #holders() {
    return JSON.parse(readFileSync(this.lock, 'utf8')).processes.map(({ pid }) => pid);
  }
}

/** Whether wrangler and all that it has started are gone: they are one process group. @param {number} wrangler */
function isGone(wrangler) {
  try {
    process.kill(-wrangler, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

// Windows knows neither these signals nor links without a privilege.
describe('npm run dev', { skip: process.platform === 'win32' }, () => {
  const suite = new Lifetime();
  after(() => suite.end());
  let clone;
  let port;
  let hub;

  before(async () => {
    assert.ok(findUpToDateBuild(true), 'build/ is not what these sources give: run `npm run build` first.');
    clone = new Clone(suite);
    port = await freePort();
    hub = await clone.running(port);
  });

  test('prints a link whose token opens the console and the interface', async () => {
    const page = await hub.web().get(hub.link.pathname, { headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' } });
    assert.equal(page.status, 200);
    assert.match(page.text, /<div id="app">/);
    const list = await hub.web().get('/api/sessions');
    assert.deepEqual([list.status, list.body], [200, { sessions: [] }]);
  });

  test('serves the web console, with its policy, and leaves the interface to the worker', async () => {
    const navigation = { 'sec-fetch-mode': 'navigate', accept: 'text/html' };
    const page = await hub.web('team', null).get('/sessions/abc', { headers: navigation });
    assert.deepEqual([page.status, page.headers['cache-control']], [200, 'no-cache']);
    assert.match(page.text, /<div id="app">/);
    assert.match(page.headers['content-security-policy'], /script-src 'self';/);
    const [script] = page.text.match(/\/assets\/[^"]+\.js/);
    assert.match((await hub.web('team', null).get(script)).headers['cache-control'], /immutable/);
    assert.equal((await hub.web('team', null).get('/api/sessions', { headers: navigation })).body.code, 'unauthorized');
    assert.equal((await hub.web('team').get('/api/nothing', { headers: navigation })).body.code, 'not_found');
  });

  test('serves the hub: health, tokens, a session, a bridged socket, a message and an event', async (t) => {
    assert.equal((await hub.web('team', null).get('/health')).body.status, 'ok');
    assert.equal((await hub.web('team', null).get('/api/sessions')).status, 401);
    const auth = await hub.web('team').post('/api/auth', { accessToken: hub.token('team') });
    assert.equal(auth.status, 200, auth.text);
    const web = hub.web('team', auth.body.token);

    const { session, cli } = await liveSession(t, hub, { namespace: 'team', tag: '/code/dev' });
    const feed = await web.sse({ sessionId: session.id });
    t.after(() => feed.close());
    await feed.waitForGreeting();
    assert.deepEqual((await web.get('/api/sessions')).body.sessions.map(({ id, active }) => [id, active]), [[session.id, true]]);

    const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'hello' });
    assert.equal(sent.body.message?.seq, 1, sent.text);
    assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'hello');
    assert.equal((await cli.sendMessage(session.id, { role: 'agent', content: 'hi' })).seq, 2);
    const seqs = [await feed.nextEvent('message-received'), await feed.nextEvent('message-received')].map(({ message }) => message.seq);
    assert.deepEqual(seqs, [1, 2]);
    assert.equal((await web.readHistory(session.id)).length, 2);
  });

  test('does not run twice on a folder, and the second one names the first', async () => {
    const second = clone.dev(await freePort());
    await second.lines.first((line) => line === `A hub is already running in this folder: http://127.0.0.1:${port} (process ${hub.dev}).`, 'the sentence');
    assert.deepEqual(await withTimeout(second.exited, 'its end'), [1, null]);
  });

  test('says who has its port: a hub or another program', async (t) => {
    const elsewhere = new Clone(t);
    const refused = async (taken) => {
      const { lines, exited } = elsewhere.dev(taken);
      const said = await lines.first((line) => line.startsWith('Port '), 'the sentence');
      assert.deepEqual(await withTimeout(exited, 'its end'), [1, null]);
      return said;
    };
    assert.equal(await refused(port), `Port ${port} is in use by a hub, such as one in another folder.`);
    const other = net.createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    const taken = other.address().port;
    assert.equal(await refused(taken), `Port ${taken} is in use by another program.`);
  });

  test('starts again at once after its npm was killed', async () => {
    await hub.kill();
    hub = await clone.running(port);
    assert.equal((await hub.web().get('/api/sessions')).status, 200);
  });

  test('starts again after it was killed with wrangler: nothing of the first one runs, what it stored is there', async () => {
    const body = { tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop' } };
    const { session } = (await hub.web().post('/cli/sessions', body)).body;
    const { wrangler } = hub;
    process.kill(wrangler, 'SIGKILL');
    process.kill(hub.dev, 'SIGKILL');
    assert.deepEqual(await withTimeout(hub.exited, 'its end'), [137, null]);
    hub = await clone.running(port);
    assert.ok(isGone(wrangler));
    assert.deepEqual((await hub.web().get('/api/sessions')).body.sessions.map(({ id }) => id), [session.id]);
  });

  test('serves again after the runtime at its port was killed, which wrangler alone does not bring back', async () => {
    const before = (await hub.web().get('/api/sessions')).body.sessions;
    const runtimes = execFileSync('ps', ['-ax', '-o', 'pid=,command='], { encoding: 'utf8' }).split('\n');
    const [runtime] = runtimes.filter((line) => line.includes(`workerd serve`) && line.includes(`:${port} `)).map(Number.parseFloat);
    process.kill(runtime, 'SIGKILL');
    await hub.lines.next((line) => line.includes('Restarting it'), 'the restart', 60_000);
    const answer = await eventually(() => hub.web().get('/api/sessions').catch(() => undefined), 'an answer', 60_000);
    assert.deepEqual(answer.body.sessions.map(({ id }) => id), before.map(({ id }) => id));
    hub.wrangler = clone.wrangler;
  });

  test('ends with all that it started on Ctrl-C', async () => {
    process.kill(hub.dev, 'SIGINT');
    assert.deepEqual(await withTimeout(hub.exited, 'its end'), [0, null]);
    await eventually(() => isGone(hub.wrangler), 'the end of what it started');
    assert.equal(existsSync(clone.lock), false);
  });
});
