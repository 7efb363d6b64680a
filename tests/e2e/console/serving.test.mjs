/** How the hub serves its console: which paths are whose, and what goes with the files. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { DESK } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';

const { hub, visit } = await startConsole();

/** What a browser says when it opens a page. */
const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };

test('every address of the console is the page, and the interface keeps its own', async () => {
  const web = hub.web('paths');
  for (const path of ['/', '/?source=pwa', '/sessions/abc', '/sessions/abc/files', '/archive', '/machines', '/new', '/settings']) {
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

test('an address that is nobody’s is a 404 with words, for a browser as for a script', async () => {
  const web = hub.web('nowhere', null);
  for (const path of ['/anything/else', '/index.php', '/assets/gone.js', '/sessions', '/sessions/a/b/c', '/_headers', '/_redirects', '/favicon.ico']) {
    for (const headers of [{}, NAVIGATION, { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }]) {
      const { status, body, headers: answered } = await web.get(path, { headers });
      assert.deepEqual([status, body?.code, answered['content-type']], [404, 'not_found', 'application/json'], path);
    }
  }
});

test('the addresses of the console are those that its views have', () => {
  const read = (file) => readFileSync(path.join(ROOT, 'web', file), 'utf8');
  const views = [...read('src/views/app.tsx').matchAll(/<Route path="([^"]+)"/g)].map(([, address]) => address);
  const served = [...read('public/_redirects').matchAll(/^(\/\S*) \/ 200$/gm)].map(([, address]) => address);
  const spelled = views.flatMap((address) => (address.endsWith('/:tab?') ? [address.slice(0, -6), address.slice(0, -1)] : [address]));
  assert.deepEqual(spelled.filter((address) => address !== '/').sort(), served.sort());
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
  await context.setOffline(true);
  // Views that were never opened.
  for (const [address, name] of [['/new', 'New session'], ['/archive', 'Archive'], ['/settings', 'Settings'], ['/machines', 'Machines']]) {
    await page.goto(`${hub.url}${address}`);
    await page.getByRole('heading', { name, exact: true }).waitFor();
  }
  await page.getByText(/You are offline|Reconnecting/).waitFor();
  await context.setOffline(false);
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
});

test('every file of the console is kept for a time without a network', async (t) => {
  const { page, complaints } = await visit(t, 'kept', DESK);
  await page.evaluate(() => navigator.serviceWorker.ready);
  const kept = await page.evaluate(async () => {
    const paths = [];
    for (const name of await caches.keys()) for (const { url } of await (await caches.open(name)).keys()) paths.push(new URL(url).pathname);
    return paths.sort();
  });
  const built = readdirSync(path.join(ROOT, 'web', 'dist', 'assets')).map((file) => `/assets/${file}`);
  assert.deepEqual(kept, ['/', ...built].sort());
  assert.deepEqual(complaints, []);
});

test('a file that is opened by itself does not take the place of the page without a network', async (t) => {
  const { page, context } = await visit(t, 'files', DESK);
  await page.evaluate(() => navigator.serviceWorker.ready);
  for (const file of ['/icon.svg', '/sw.js', '/manifest.webmanifest']) assert.equal((await page.goto(file)).status(), 200, file);
  await page.goto('about:blank');
  await context.setOffline(true);
  await page.goto(`${hub.url}/machines`);
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
});
