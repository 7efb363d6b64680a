/** How the hub serves its console: its paths, its headers, and a page whose files are gone. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { DESK, holds, linkTo } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';

const { hub, open, visit } = await startConsole({ serviceWorkers: 'allow' });

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
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
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

/**
 * A page with a session that was loaded a minute ago: the console never reloads a page that it has just loaded. Nothing is
 * kept by a service worker.
 */
async function longOpenPage(t, namespace) {
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/code/c', metadata: { path: '/code/c', host: 'h', name: 'The talk' } });
  const { page, context, complaints } = await open(t, { ...DESK, serviceWorkers: 'block' });
  await page.addInitScript(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + 60_000;
  });
  await page.goto(linkTo(hub, namespace, `/sessions/${session.id}`));
  const chat = new Chat(page);
  await chat.line.waitFor();
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  const isSameDocument = () => page.evaluate(() => window.sameDocument === true);
  return { session, cli, page, context, complaints, chat, isSameDocument };
}

/** Answers 404 for the files of a pattern until the page is loaded again, as a hub does after a deploy. */
async function deploy(page, pattern) {
  let isOldPage = true;
  page.on('request', (request) => {
    if (request.isNavigationRequest()) isOldPage = false;
  });
  await page.route(pattern, (route) => (isOldPage ? route.fulfill({ status: 404 }) : route.fallback()));
}

test('offline, a view that was never opened leaves the page as it is, and online the next try shows it', async (t) => {
  const { page, context, isSameDocument } = await longOpenPage(t, 'offline');
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('alert').getByText('This view could not be loaded.').waitFor();
  assert.equal(await isSameDocument(), true);
  await context.setOffline(false);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
});

test('after a deploy, a view whose file is gone loads the new page, and no draft is lost', async (t) => {
  const { session, cli, page, chat, isSameDocument } = await longOpenPage(t, 'deployed');
  const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1 } } };
  await cli.ask('update-state', { sid: session.id, expectedVersion: 1, agentState });
  const reason = page.getByRole('dialog').getByLabel(/Reason for the agent/);
  const deny = () => chat.request().getByRole('button', { name: 'Deny', exact: true }).click();
  await deny();
  await reason.fill('Not now, as');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await chat.line.fill('A message that is not');

  await deploy(page, '**/assets/settings-*.js');
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), false);
  await page.getByRole('link', { name: /The talk/ }).click();
  await holds(chat.line, 'A message that is not');
  await deny();
  await holds(reason, 'Not now, as');
});

test('after a deploy, a page with attached files is reloaded when they are sent or removed', async (t) => {
  const { page, isSameDocument } = await longOpenPage(t, 'attached');
  await page.locator('input[type=file]').setInputFiles([{ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x') }]);
  const remove = page.getByRole('button', { name: 'Remove notes.txt' });
  await remove.waitFor();
  await deploy(page, '**/assets/settings-*.js');
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('alert').getByText('send or remove the attached files').waitFor();
  assert.equal(await isSameDocument(), true);
  await page.getByRole('link', { name: /The talk/ }).click();
  await remove.click();
  await remove.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), false);
});

test('a preload that fails alone changes nothing: the view is shown without a reload', async (t) => {
  const { page, isSameDocument, complaints } = await longOpenPage(t, 'preload');
  // Only the preload asks for the missing file, however often a browser asks for either.
  await page.evaluate(() => {
    const append = document.head.appendChild.bind(document.head);
    document.head.appendChild = (link) => {
      if (link.rel === 'modulepreload') link.href = `/assets/gone-${link.href.split('/').at(-1)}`;
      return append(link);
    };
  });
  const failed = page.waitForResponse((response) => response.url().includes('/assets/gone-settings-'));
  await page.getByRole('link', { name: 'Settings' }).click();
  assert.equal((await failed).status(), 404);
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), true);
  assert.deepEqual(complaints, []);
});

test('code whose highlighter cannot be fetched stays plain, and the page that somebody writes in is not reloaded', async (t) => {
  const { session, cli, page, chat, isSameDocument, complaints } = await longOpenPage(t, 'plain');
  await page.route('**/assets/highlight-*.js', (route) => route.fulfill({ status: 404 }));
  const missing = page.waitForResponse((response) => response.url().includes('/assets/highlight-'));
  const say = (text) => cli.say(session.id, { role: 'agent', content: { type: 'text', text } });
  await say('```rust\nfn main() {}\n```');
  await missing;
  await chat.says('fn main() {}');
  await say('Done.');
  await chat.says('Done.');
  assert.deepEqual([await isSameDocument(), await page.locator('.hljs-keyword').count()], [true, 0]);
  assert.deepEqual(complaints, []);
});
