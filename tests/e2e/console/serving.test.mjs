/** How the hub serves its console: which paths are whose, and what goes with the files. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../lib/await.mjs';
import { DESK } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';

const { hub, visit, session } = await startConsole();

/** What a browser says when it opens a page. */
const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };

test('every address that is opened is the page, and the interface keeps its own', async () => {
  const web = hub.web('paths');
  for (const path of ['/', '/sessions/abc', '/sessions/abc/files', '/machines', '/anything/else']) {
    const { status, headers, text } = await web.get(path, { headers: NAVIGATION });
    assert.deepEqual([status, headers['content-type'].split(';')[0]], [200, 'text/html'], path);
    assert.match(text, /<div id="app">/, path);
  }
  for (const path of ['/api', '/api/', '/api/nothing', '/api/sessions/none', '/cli', '/cli/nothing']) {
    const { status, body } = await web.get(path, { headers: NAVIGATION });
    assert.equal(status, 404, path);
    assert.match(body.code, /not_found$/, path);
  }
  assert.equal((await web.get('/health', { headers: NAVIGATION })).body.status, 'ok');
  assert.equal((await web.get('/socket.io/', { headers: NAVIGATION })).body.code, 'transport_unsupported');
  assert.equal((await hub.web('paths', null).get('/api/sessions', { headers: NAVIGATION })).status, 401);
  assert.equal((await web.post('/sessions/abc', {})).status, 405);
});

test('the page may run and load nothing but its own files, and no other page may frame it', async () => {
  for (const path of ['/', '/sessions/abc']) {
    const { headers } = await hub.web('headers').get(path, { headers: NAVIGATION });
    const policy = headers['content-security-policy'];
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) {
      assert.ok(policy.split('; ').includes(part), part);
    }
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    const { 'x-content-type-options': sniff, 'referrer-policy': referrer, 'cache-control': cache } = headers;
    assert.deepEqual([sniff, referrer, cache], ['nosniff', 'no-referrer', 'no-cache']);
  }
});

test('files whose names change with their content are kept for a year, all others are asked for anew', async () => {
  const web = hub.web('cache');
  const page = (await web.get('/', { headers: NAVIGATION })).text;
  const files = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, file]) => file);
  assert.ok(files.length >= 2);
  for (const file of files) assert.equal((await web.get(file)).headers['cache-control'], 'public, max-age=31536000, immutable', file);
  for (const file of ['/sw.js', '/manifest.webmanifest', '/icon.svg']) {
    const { status, headers } = await web.get(file);
    assert.deepEqual([status, headers['cache-control']], [200, 'no-cache'], file);
  }
  assert.match((await web.get('/_headers')).text, /<div id="app">/);
});

test('it can be installed: a manifest with icons, and a service worker that opens it without a network', async (t) => {
  const { page, context } = await visit(t, 'install', DESK);
  await page.getByRole('heading', { name: 'No session yet' }).waitFor();
  const client = await context.newCDPSession(page);
  const { errors, url, data } = await client.send('Page.getAppManifest');
  assert.deepEqual([errors, new URL(url).pathname], [[], '/manifest.webmanifest']);
  for (const { src, sizes } of JSON.parse(data).icons) {
    const size = await page.evaluate(async (source) => {
      const image = new Image();
      image.src = source;
      await image.decode();
      return `${image.naturalWidth}x${image.naturalHeight}`;
    }, src);
    if (sizes !== 'any') assert.equal(size, sizes, src);
  }
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await page.getByRole('heading', { name: 'No session yet' }).waitFor();
  await context.setOffline(true);
  await page.goto(`${hub.url}/machines`);
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
  await page.getByText(/You are offline|Reconnecting/).waitFor();
  await context.setOffline(false);
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
});

test('a file that is opened by itself does not take the place of the page without a network', async (t) => {
  const { page, context } = await visit(t, 'files', DESK);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await page.getByRole('heading', { name: 'No session yet' }).waitFor();
  for (const file of ['/icon.svg', '/sw.js', '/manifest.webmanifest']) assert.equal((await page.goto(file)).status(), 200, file);
  await page.goto('about:blank');
  await context.setOffline(true);
  await page.goto(`${hub.url}/machines`);
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
});

test('what the hub pushes is shown, and leads to the session', async (t) => {
  const { agent, page, context } = await session(t, 'push', { args: ['--name', 'The notes'] });
  await context.grantPermissions(['notifications']);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  const client = await context.newCDPSession(page);
  const registered = new Promise((resolve) => client.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => registrations[0] && resolve(registrations[0])));
  await client.send('ServiceWorker.enable');
  const { registrationId } = await registered;
  const data = { sessionId: agent.sessionId, requestId: 'r', url: `/sessions/${agent.sessionId}` };
  const pushed = { title: 'Permission Request', body: 'The notes (Bash)', tag: `permission-${agent.sessionId}`, data };
  await client.send('ServiceWorker.deliverPushMessage', { origin: hub.url, registrationId, data: JSON.stringify(pushed) });
  const shown = () =>
    page.evaluate(async () => {
      const [first] = await (await navigator.serviceWorker.ready).getNotifications();
      return first && { title: first.title, body: first.body, tag: first.tag, data: first.data };
    });
  assert.deepEqual(await eventually(shown, 'the notification'), pushed);

  const [worker] = context.serviceWorkers();
  await worker.evaluate(async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent('notificationclick', { notification }));
  });
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();
  assert.equal(new URL(page.url()).pathname, data.url);
});

test('notifications are offered when the hub has them, and turned on and off with it', async (t) => {
  const { page, context } = await visit(t, 'notify', { ...DESK, path: '/settings' });
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
  const asked = [];
  await page.route('**/api/push/vapid-public-key', (route) => route.fulfill({ status: 404, json: { error: 'No such path.', code: 'not_found' } }));
  const answered = page.waitForResponse('**/api/push/vapid-public-key');
  await page.reload();
  await answered;
  await page.getByRole('heading', { name: 'Account' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Notifications' }).count(), 0);
  await page.unroute('**/api/push/vapid-public-key');
  await page.route('**/api/push/**', async (route) => {
    const { method, url, body } = { method: route.request().method(), url: route.request().url(), body: route.request().postDataJSON() };
    if (url.endsWith('/vapid-public-key')) return route.fulfill({ json: { publicKey: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM' } });
    asked.push([method, body]);
    return route.fulfill({ json: { ok: true } });
  });
  await context.grantPermissions(['notifications']);
  // The browser's own push service is out of reach here: this stands in its place.
  await page.addInitScript(() => {
    let current = null;
    const json = { endpoint: 'https://push.example.com/1', keys: { p256dh: 'key', auth: 'secret' } };
    const made = { endpoint: json.endpoint, toJSON: () => json, unsubscribe: async () => ((current = null), true) };
    PushManager.prototype.getSubscription = async () => current;
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
      if (!userVisibleOnly || !applicationServerKey) throw new Error('Not like that.');
      return (current = made);
    };
  });
  await page.reload();
  await page.getByRole('button', { name: 'Turn notifications on' }).click();
  await page.getByRole('button', { name: 'Turn notifications off' }).click();
  await page.getByRole('button', { name: 'Turn notifications on' }).waitFor();
  assert.deepEqual(asked, [
    ['POST', { endpoint: 'https://push.example.com/1', keys: { p256dh: 'key', auth: 'secret' } }],
    ['DELETE', { endpoint: 'https://push.example.com/1' }],
  ]);
});
