/** Notifications, from an agent that asks to what a person sees: in the console, and in a page made of PROTOCOL.md. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, test } from 'node:test';
import { deferred, eventually, within } from '../lib/await.mjs';
import { DESK, linkTo } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';
import { click, deliver, giveOut, shown, turn } from '../lib/push-browser.mjs';
import { PushService } from '../lib/push-service.mjs';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const service = await new PushService().start();
after(() => service.stop());
const { hub, open, session, visit } = await startConsole({ vars: { PUSH_ALLOW_INSECURE: 'true' }, serviceWorkers: 'allow' });

const READY = { role: 'agent', content: { type: 'event', data: { type: 'ready' } } };

/** The settings of a browser with a subscription of the local push service. */
async function settings(t, namespace, subscription) {
  const opened = await open(t);
  await giveOut(opened.context, subscription);
  await opened.page.goto(linkTo(hub, namespace, '/settings'));
  await opened.page.getByRole('heading', { name: 'Notifications' }).waitFor();
  return opened;
}

const on = (page) => page.getByRole('button', { name: 'Turn notifications on' });
const off = (page) => page.getByRole('button', { name: 'Turn notifications off' });

/** How many subscriptions the hub knows in a namespace. */
async function known(namespace) {
  const counted = (await hub.database()).prepare('SELECT count(*) AS n FROM push_subscriptions WHERE namespace = ?').bind(namespace);
  return (await counted.first()).n;
}

/** Waits until the page's visibility is the hub's. */
async function look(page, visibility) {
  const told = page.waitForResponse((response) => response.url().endsWith('/api/visibility'));
  await turn(page, visibility);
  assert.equal((await told).status(), 200);
}

test('whoever turned notifications on and does not look is notified, and led to the session', async (t) => {
  const device = service.browser();
  const { agent, page, context, complaints, chat } = await session(t, 'asks', { args: ['--name', 'The notes'] });
  await giveOut(context, device.subscription);
  await page.goto(`${hub.url}/settings`);
  await on(page).click();
  await off(page).waitFor();
  assert.equal(await known('asks'), 1);

  await page.getByRole('link', { name: /The notes/ }).first().click();
  await chat.line.waitFor();
  await look(page, 'hidden');
  await chat.send('rm notes.txt');
  const { payload } = await device.next();
  const { title, body, tag, data } = payload;
  assert.deepEqual([title, body, tag, data.url], ['Permission Request', 'The notes (Bash)', `permission-${agent.sessionId}`, `/sessions/${agent.sessionId}`]);
  await deliver(page, payload);
  assert.deepEqual(await shown(page), payload);

  await page.goto(`${hub.url}/machines`);
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
  await click(page);
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();
  await page.waitForURL(`**${data.url}`);
  await chat.request().waitFor();
  assert.deepEqual(complaints, []);
});

test('whoever looks at the page sees a toast instead, and no push is sent', async (t) => {
  const device = service.browser();
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'looks', tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' } });
  const { page } = await settings(t, 'looks', device.subscription);
  await on(page).click();
  await off(page).waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await cli.say(one.id, READY);
  await page.getByText('alpha is waiting in The talk').waitFor();
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
  const outcomes = async () => (await hub.web('looks').get('/api/push/log')).body.log.map(({ outcome }) => outcome);
  await eventually(async () => (await outcomes())[0] === 'toast', 'the outcome');
  assert.deepEqual(await outcomes(), ['toast']);
  assert.ok(!service.messages.some(({ path: to }) => to === device.path));
});

test('notifications stay on over a reload, are made known again, and are turned off with the hub', async (t) => {
  const device = service.browser();
  const { page } = await settings(t, 'stays', device.subscription);
  await on(page).click();
  await off(page).waitFor();
  // The hub has lost it, as it does with the oldest of too many.
  await hub.web('stays').delete('/api/push/subscribe', { body: { endpoint: device.subscription.endpoint } });
  assert.equal(await known('stays'), 0);
  await page.goto(`${hub.url}/machines`);
  await eventually(async () => (await known('stays')) === 1, 'the subscription');
  await page.goto(`${hub.url}/settings`);
  await off(page).click();
  await on(page).waitFor();
  assert.equal(await known('stays'), 0);
  await page.reload();
  await on(page).waitFor();
});

test('a subscription under another key is replaced', async (t) => {
  const device = service.browser();
  const { page } = await settings(t, 'keys', device.subscription);
  const other = (await service.browser()).subscription.keys.p256dh;
  await page.evaluate((key) => localStorage.setItem('subscribed under', key), other);
  await page.reload();
  await on(page).click();
  await off(page).waitFor();
  const { publicKey } = (await hub.web('keys').get('/api/push/vapid-public-key')).body;
  assert.equal(await page.evaluate(() => localStorage.getItem('subscribed under')), publicKey);
});

test('whoever signs out gets no notifications any more', async (t) => {
  const { page } = await settings(t, 'leaves', service.browser().subscription);
  await on(page).click();
  await off(page).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.equal(await known('leaves'), 0);
});

test('whoever comes with a link of another namespace is notified of neither', async (t) => {
  const { page } = await settings(t, 'first', service.browser().subscription);
  await on(page).click();
  await off(page).waitFor();
  await page.goto(linkTo(hub, 'second', '/settings'));
  await page.getByRole('button', { name: 'Switch namespace' }).click();
  await page.getByText('Namespace second').waitFor();
  await on(page).waitFor();
  assert.equal(await known('second'), 0);
});

test('notifications are turned off also while the hub does not hear of it', async (t) => {
  const { page } = await settings(t, 'unheard', service.browser().subscription);
  await on(page).click();
  await off(page).waitFor();
  await page.route('**/api/push/subscribe', (route) => route.abort());
  await off(page).click();
  await on(page).waitFor();
  await page.unroute('**/api/push/subscribe');
  await page.reload();
  await on(page).waitFor();
});

test('notifications that are turned off while they are made known stay off', async (t) => {
  const { page } = await settings(t, 'overtaken', service.browser().subscription);
  await on(page).click();
  await off(page).waitFor();
  // The settings make them known again whenever they are opened.
  await page.getByRole('link', { name: 'Machines' }).click();
  const [held, passes] = [deferred(), deferred()];
  await page.route('**/api/push/subscribe', async (route) => {
    if (route.request().method() === 'POST') {
      held.resolve();
      await passes.promise;
    }
    await route.fallback();
  });
  await page.getByRole('link', { name: 'Settings' }).click();
  await off(page).waitFor();
  await within(held.promise, 'the subscription to be made known');
  await off(page).click();
  const late = page.waitForResponse((response) => response.url().endsWith('/api/push/subscribe') && response.request().method() === 'POST');
  passes.resolve();
  await late;
  await on(page).waitFor();
  assert.equal(await known('overtaken'), 0);
});

test('why there is no switch is said: blocked, not possible, or only from the home screen', async (t) => {
  const without = () => delete window.PushManager;
  const onPhone = () => {
    delete window.PushManager;
    Object.defineProperty(Navigator.prototype, 'standalone', { value: false });
  };
  const blocked = () => Object.defineProperty(Notification, 'permission', { get: () => 'denied' });
  for (const [script, words] of [
    [blocked, /blocks notifications from this page\. Open the site settings/],
    [without, /This browser does not support notifications/],
    [onPhone, /Add to Home Screen/],
  ]) {
    const { page, context } = await open(t);
    await context.addInitScript(script);
    await page.goto(linkTo(hub, 'without', '/settings'));
    await page.getByText(words).waitFor();
    assert.equal(await on(page).count(), 0);
  }
});

test('the settings tell what became of the last notifications', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'wonders', tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' } });
  const { page } = await visit(t, 'wonders', { ...DESK, path: '/settings' });
  await page.getByText('Recent notifications').click();
  const none = page.getByText('No notifications yet.');
  await none.waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await look(page, 'hidden');
  const newest = (outcome) => eventually(async () => (await hub.web('wonders').get('/api/push/log')).body.log[0]?.outcome === outcome, `the outcome ${outcome}`);
  await cli.say(one.id, READY);
  await newest('no-subscribers');
  const again = page.getByRole('button', { name: 'Refresh' });
  await again.click();
  // No browser has had them on.
  await page.getByRole('button', { name: 'Refresh', disabled: false }).waitFor();
  await none.waitFor();

  const refusing = service.browser(() => ({ status: 403 }));
  const busy = service.browser(() => ({ status: 503, headers: { 'retry-after': '3600' } }));
  for (const { subscription } of [refusing, busy]) assert.equal((await hub.web('wonders').post('/api/push/subscribe', subscription)).status, 200);
  const requests = { r1: { tool: 'shell', arguments: {} } };
  await cli.ask('update-state', { sid: one.id, expectedVersion: 1, agentState: { requests } });
  await busy.next();
  await newest('sending');
  await again.click();
  const list = page.getByRole('list', { name: 'Recent notifications' });
  await list.getByText('Permission Request: Not delivered to all browsers yet, retrying').waitFor();
  await list.getByText(`The push service rejected it (${service.origin}, 403)`).waitFor();
  await list.getByText(`The push service was busy (${service.origin}, 503)`).waitFor();
  await list.getByText('Session Ready: Not sent: no browser has notifications on').waitFor();
  await page.evaluate(readFileSync(axe, 'utf8'));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes[0].html]), []);
  await list.getByRole('link', { name: 'The talk (shell)' }).click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
});

test('the page and the service worker of PROTOCOL.md do what they say', async (t) => {
  const text = readFileSync(path.join(ROOT, 'docs', 'PROTOCOL.md'), 'utf8');
  const chapter = /^## Push notifications\n([^]*?)^## /m.exec(text)[1];
  const [ofPage, ofWorker, ...more] = [...chapter.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code);
  assert.deepEqual([more.length, ofPage.includes('subscribe'), ofWorker.includes('notificationclick')], [0, true, true]);
  const site = await serve(t, {
    '/': ['text/html', `<script>const token = ${JSON.stringify(hub.token('protocol'))};\n${ofPage}</script>`],
    '/service-worker.js': ['text/javascript', ofWorker],
  });
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'protocol', tag: 'demo', metadata: { name: 'The talk' } });
  const device = service.browser();
  const { page, context, complaints } = await open(t);
  await giveOut(context, device.subscription);
  await page.goto(site);
  await page.evaluate('subscribe()');
  assert.equal(await known('protocol'), 1);
  await cli.say(one.id, READY);
  const { payload } = await device.next();
  assert.equal(payload.body, 'alpha is waiting in The talk');
  await deliver(page, payload);
  assert.deepEqual(await shown(page), payload);
  assert.deepEqual(await click(page), [`/sessions/${one.id}`]);
  assert.deepEqual(complaints, []);
});

/** A site of these files, with the hub's interface beside them. */
async function serve(t, files) {
  const server = http.createServer(async (request, response) => {
    const [type, content] = files[request.url] ?? [];
    if (content !== undefined) return response.writeHead(200, { 'content-type': type }).end(content);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const answer = await fetch(hub.url + url, { method, body, headers: { authorization: headers.authorization ?? '', 'content-type': 'application/json' } });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}/`;
}
