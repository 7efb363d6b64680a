/** `npm run dev` as a person starts it: its link, a second one beside it, and that nothing of it is left, however it ends. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { upToDate } from '../../scripts/build.mjs';
import { ROOT, TOOLS_DIR } from '../../scripts/lib/paths.mjs';
import { eventually, within } from './lib/await.mjs';
import { freePort, start } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { Web } from './lib/web.mjs';

/** How long set-up, the migrations and wrangler may take together; a start that fails ends by itself before. */
const START_MS = 240_000;

/** What a start looks at and what wrangler watches: copied, so that an edit meanwhile changes nothing of this. */
const COPIED = [
  'scripts', 'src', 'migrations', 'build', 'web',
  'Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml', 'package.json', 'package-lock.json', 'wrangler.toml',
];

/** Where packages are. */
const LINKED = ['node_modules', 'tests', 'examples'];

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

  /** `npm run dev -- --port PORT`. @param {number} port */
  dev(port) {
    const env = {
      HUB_TOOLS_DIR: TOOLS_DIR,
      NO_COLOR: '1',
      // Through the link an npm that is started here would empty the project's own packages: there is none.
      npm_execpath: path.join(this.folder, 'no', 'npm-cli.js'),
    };
    const args = [path.join(this.folder, 'scripts', 'dev.mjs'), '--port', String(port)];
    return start(this.#t, 'npm run dev', process.execPath, args, { cwd: this.folder, env });
  }

  /** The same, and waits for its link. @returns a client that opened it, and the processes */
  async running(port) {
    const { lines, exited } = this.dev(port);
    const link = new URL(await lines.first((line) => line.includes('#token='), 'the link', START_MS));
    const [dev, wrangler] = this.#holders();
    return { lines, exited, link, dev, wrangler, web: new Web({ url: link.origin, token: link.hash.replace('#token=', '') }) };
  }

  get lock() {
    return path.join(this.folder, '.wrangler', 'dev.lock');
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
    assert.ok(upToDate(false), 'build/ is not what these sources give: run `npm run build` first.');
    clone = new Clone(suite);
    port = await freePort();
    hub = await clone.running(port);
  });

  test('prints a link whose token opens the console and the interface', async () => {
    const page = await hub.web.get(hub.link.pathname, { headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' } });
    assert.equal(page.status, 200);
    assert.match(page.text, /<div id="app">/);
    const list = await hub.web.get('/api/sessions');
    assert.deepEqual([list.status, list.body], [200, { sessions: [] }]);
  });

  test('does not run twice on a folder, and the second one names the first', async () => {
    const second = clone.dev(await freePort());
    await second.lines.first((line) => line === `A hub is already running on this folder: http://127.0.0.1:${port} (process ${hub.dev}).`, 'the sentence');
    assert.deepEqual(await within(second.exited, 'its end'), [1, null]);
  });

  test('says who has its port: a hub or another program', async (t) => {
    const elsewhere = new Clone(t);
    const refused = async (taken) => {
      const { lines, exited } = elsewhere.dev(taken);
      const said = await lines.first((line) => line.startsWith('Port '), 'the sentence');
      assert.deepEqual(await within(exited, 'its end'), [1, null]);
      return said;
    };
    assert.equal(await refused(port), `Port ${port} is in use by a hub, such as that of another folder.`);
    const other = net.createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    const taken = other.address().port;
    assert.equal(await refused(taken), `Port ${taken} is in use by another program.`);
  });

  test('starts again after it was killed with wrangler: nothing of the first one runs, what it stored is there', async () => {
    const body = { tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop' } };
    const { session } = (await hub.web.post('/cli/sessions', body)).body;
    const { wrangler } = hub;
    process.kill(wrangler, 'SIGKILL');
    process.kill(hub.dev, 'SIGKILL');
    assert.deepEqual(await within(hub.exited, 'its end'), [null, 'SIGKILL']);
    hub = await clone.running(port);
    assert.ok(isGone(wrangler));
    assert.deepEqual((await hub.web.get('/api/sessions')).body.sessions.map(({ id }) => id), [session.id]);
  });

  test('ends with all that it started on Ctrl-C', async () => {
    process.kill(hub.dev, 'SIGINT');
    assert.deepEqual(await within(hub.exited, 'its end'), [0, null]);
    await eventually(() => isGone(hub.wrangler), 'the end of what it started');
    assert.equal(existsSync(clone.lock), false);
  });
});
