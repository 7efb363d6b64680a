/** The hub as `npm run dev` runs it, under wrangler: one walk through it. Everything else is tested on the runtime alone. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { namespaceToken } from '../../scripts/lib/dev-vars.mjs';
import { HubRefuses, waitUntilReady } from '../../scripts/lib/ready.mjs';
import { OFFLINE, wranglerCommand } from '../../scripts/lib/wrangler.mjs';
import { eventually, within } from './lib/await.mjs';
import { freePort, start } from './lib/children.mjs';
import { liveSession } from './lib/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, SECRET, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { Web } from './lib/web.mjs';

/** How long wrangler may take to bundle the worker and to start. */
const START_MS = 120_000;

/**
 * The project's own configuration with absolute paths, and without its build: what runs here is what was built before
 * the tests, and an edit meanwhile must not change it.
 */
function configuration() {
  const absolute = (_, key, name) => `${key} = ${JSON.stringify(path.join(ROOT, name))}`;
  return readFileSync(path.join(ROOT, 'wrangler.toml'), 'utf8')
    .replace(/^\[build\]\n(?:(?!\[).*\n)*/m, '')
    .replace(/^(main|migrations_dir|directory)\s*=\s*"([^"]+)"/gm, absolute);
}

describe('wrangler dev', () => {
  const suite = new Lifetime();
  after(() => suite.end());
  let hub;

  before(async () => {
    const folder = temporaryFolder(suite);
    writeFileSync(path.join(folder, 'wrangler.toml'), configuration());
    writeFileSync(path.join(folder, '.dev.vars'), `CLI_API_TOKEN=${SECRET}\n`);
    const wrangler = (...args) => {
      const [command, all] = wranglerCommand([...args, '--local', '--persist-to', path.join(folder, 'state')]);
      return start(suite, `wrangler ${args[0]}`, command, all, { cwd: folder, env: { ...OFFLINE, NO_COLOR: '1' } });
    };
    const migration = wrangler('d1', 'migrations', 'apply', 'DB');
    const [code] = await within(migration.exited, 'the migrations', START_MS);
    assert.equal(code, 0, migration.lines.all.join('\n'));

    const port = await freePort();
    const place = ['--ip', '127.0.0.1', '--port', `${port}`, '--inspector-port', '0'];
    const { lines } = wrangler('dev', ...place, '--show-interactive-dev-session=false');
    await lines.first((line) => /Ready on/.test(line), 'the address of the server', START_MS);
    const url = `http://127.0.0.1:${port}`;
    const token = (namespace) => `${SECRET}:${namespace}`;
    hub = { url, port, token, web: (namespace, shown = token(namespace)) => new Web({ url, token: shown }) };
    await eventually(() => hub.web('x', null).get('/health').then(({ status }) => status === 200, () => false), 'the hub', START_MS);
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
    await feed.greeting();
    assert.deepEqual((await web.get('/api/sessions')).body.sessions.map(({ id, active }) => [id, active]), [[session.id, true]]);

    const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'hello' });
    assert.equal(sent.body.message?.seq, 1, sent.text);
    assert.equal((await cli.update('new-message')).message.content.content.text, 'hello');
    assert.equal((await cli.say(session.id, { role: 'agent', content: 'hi' })).seq, 2);
    const seqs = [await feed.event('message-received'), await feed.event('message-received')].map(({ message }) => message.seq);
    assert.deepEqual(seqs, [1, 2]);
    assert.equal((await web.history(session.id)).length, 2);
  });
});

describe('npm run dev', () => {
  const tokens = [SECRET, namespaceToken(SECRET, 'default')];
  const ready = ({ url }) => waitUntilReady(url, { tokens, timeoutMs: START_MS, check: () => {}, fileOf: () => '.dev.vars' });
  const started = async (t, options) => {
    const hub = await startHub(options);
    t.after(() => hub.stop());
    return hub;
  };

  test('finds the token that opens the hub', async (t) => {
    assert.equal(await ready(await started(t)), tokens[0]);
    assert.equal(await ready(await started(t, { vars: { REQUIRE_NAMESPACE_TOKENS: 'true' } })), tokens[1]);
  });

  test('does not wait for a hub that cannot serve as it is configured, and says why', async (t) => {
    for (const [options, reason] of [
      [{ vars: { NAMESPACE_ROUTING: 'nonsense' } }, /NAMESPACE_ROUTING must be .*`nonsense`/],
      [{ vars: { REQUIRE_NAMESPACE_TOKENS: 'maybe' } }, /REQUIRE_NAMESPACE_TOKENS must be .*`maybe`/],
      [{ vars: { CLI_API_TOKEN: ' ' } }, /CLI_API_TOKEN is not set/],
      [{ schema: false }, /no schema yet.*migrations apply/],
    ]) {
      const hub = await started(t, options);
      await assert.rejects(ready(hub), (error) => error instanceof HubRefuses && reason.test(error.message));
    }
  });
});
