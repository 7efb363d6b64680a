/** The web console on a device whose network has dropped its connections silently, for example while the device slept. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { PHONE, signInUrl } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { setPageVisibility } from '../lib/push-browser.mjs';
import { startTcpProxy } from '../lib/tcp-proxy.mjs';
import { say } from '../lib/records.mjs';

const { hub, open } = await startConsole();

const talk = { tag: '/code/c', metadata: { path: '/code/c', host: 'h', name: 'The talk' } };

/** The deadline of a probe. */
const PROBE_MS = 3_000;
/** Time for a new connection on a busy computer. Without a probe, the console reconnects after 95 s. */
const MAX_RETURN_MS = 9_000;

/** Opens a session on a phone, behind a proxy that can lose connections. */
async function openBehindProxy(t, namespace) {
  const { session, cli } = await liveSession(t, hub, { namespace, ...talk });
  const proxy = await startTcpProxy(t, hub);
  const { page } = await open(t, PHONE);
  await page.clock.install();
  const sockets = [];
  page.on('websocket', (socket) => sockets.push(socket));
  await page.goto(signInUrl({ url: proxy.url, token: (name) => hub.token(name) }, namespace, `/sessions/${session.id}`));
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await eventually(() => sockets.length === 1, 'the socket of the page');
  await say(cli, session.id, 'Before.');
  await chat.waitForText('Before.');
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  return { session, cli, proxy, page, chat };
}

const dispatch = (page, target, name, properties = {}) =>
  page.evaluate(([on, type, fields]) => window[on].dispatchEvent(Object.assign(new Event(type), fields)), [target, name, properties]);

const RETURNS = {
  'becomes visible': async (page) => {
    await setPageVisibility(page, 'hidden');
    await setPageVisibility(page, 'visible');
  },
  'is shown from the back/forward cache': (page) => dispatch(page, 'window', 'pageshow', { persisted: true }),
  'is resumed after it was frozen': (page) => dispatch(page, 'document', 'resume'),
  'changes its network': (page) => dispatch(page, 'window', 'online'),
};

for (const [name, comeBack] of Object.entries(RETURNS)) {
  test(`a page that ${name} finds a lost connection within seconds, and misses nothing`, { tags: ['timing'] }, async (t) => {
    const { session, cli, proxy, page, chat } = await openBehindProxy(t, `back-${Object.keys(RETURNS).indexOf(name)}`);
    assert.ok(proxy.dropConnections() > 0);
    await say(cli, session.id, 'Meanwhile.');
    const startedAt = Date.now();
    await comeBack(page);
    await page.clock.runFor(PROBE_MS);
    await chat.waitForText('Meanwhile.');
    assert.ok(Date.now() - startedAt < MAX_RETURN_MS, `after ${Date.now() - startedAt} ms`);
    await say(cli, session.id, 'After.');
    await chat.waitForText('After.');
    assert.equal(await page.evaluate(() => window.sameDocument), true);
  });
}

test('if the hub does not know the subscription of a page, the page connects again', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'unknown', ...talk });
  const { page } = await open(t, PHONE);
  const servers = [];
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    const server = socket.connectToServer();
    servers.push(server);
    // The page gets the answer to its probe, so that only the visibility report shows the lost subscription.
    socket.onMessage((frame) => (frame === 'probe' ? socket.send('{"type":"probe"}') : server.send(frame)));
    // The handler keeps the page's socket open when the hub closes its own side.
    server.onClose(() => {});
  });
  await page.goto(signInUrl(hub, 'unknown', `/sessions/${session.id}`));
  const chat = new Chat(page);
  await eventually(() => servers.length === 1, 'the socket of the page');
  await say(cli, session.id, 'Before.');
  await chat.waitForText('Before.');
  await servers[0].close();
  await say(cli, session.id, 'Meanwhile.');
  await setPageVisibility(page, 'hidden');
  await setPageVisibility(page, 'visible');
  await chat.waitForText('Meanwhile.');
});
