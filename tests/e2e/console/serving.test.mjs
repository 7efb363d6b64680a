/** How the hub serves the console: paths, headers, offline use, prefixes, and pages that were opened before the last deployment. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { DESK, signInUrl, waitForEqual, waitForValue } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';
import { startPrefixProxy } from '../lib/prefix-proxy.mjs';

const { hub, open, visit } = await startConsole();

const WITH_WORKER = { ...DESK, serviceWorkers: /** @type {const} */ ('allow') };

/** The headers of a browser that opens a page. */
const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };

test('serves the page for all routes of the console, and the API for its own paths', async () => {
  const web = hub.web('paths');
  for (const path of [
    '/',
    '/?source=pwa',
    '/sessions/abc',
    '/sessions/abc/files',
    '/archive',
    '/machines',
    '/new',
    '/pair',
    '/settings',
    '/sign-in',
  ]) {
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
  assert.equal((await hub.webWithoutToken().get('/api/sessions', { headers: NAVIGATION })).status, 401);
  assert.equal((await web.post('/sessions/abc', {})).status, 405);
});

test('responds to unknown paths with a 404 and the page of the console', async () => {
  const web = hub.webWithoutToken();
  for (const path of [
    '/anything/else',
    '/index.php',
    '/assets/gone.js',
    '/sessions',
    '/sessions/a/b/c',
    '/_headers',
    '/_redirects',
    '/favicon.ico',
  ]) {
    for (const headers of [{}, NAVIGATION, { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }]) {
      const { status, text, headers: responseHeaders } = await web.get(path, { headers });
      assert.deepEqual([status, responseHeaders['content-type'].split(';')[0]], [404, 'text/html'], path);
      assert.match(text, /<div id="app">/, path);
      assert.match(responseHeaders['content-security-policy'], /script-src 'self'/, path);
    }
  }
});

test('an unknown address is a page that says so, with a way back', async (t) => {
  const { page } = await visit(t, 'lost', { path: '/no/such/page' });
  await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.waitForURL(`${hub.url}/`);
  await page.getByRole('heading', { name: 'Connect your computer' }).waitFor();
});

test('_redirects lists the routes of the views', () => {
  const read = (file) => readFileSync(path.join(ROOT, 'web', file), 'utf8');
  const views = [...read('src/views/app.tsx').matchAll(/<Route path="([^"]+)"/g)].map(([, address]) => address);
  // The sign-in page is outside the layout, which has the routes.
  const signIn = /SIGN_IN_PATH = '([^']+)'/.exec(read('src/content/device-code.ts'))?.[1];
  const served = [...read('public/_redirects').matchAll(/^(\/\S*) \/ 200$/gm)].map(([, address]) => address);
  const expanded = views.flatMap((address) =>
    address.endsWith('?') ? [address.slice(0, address.lastIndexOf('/')), address.slice(0, -1)] : [address],
  );
  assert.deepEqual([...expanded.filter((address) => address !== '/'), signIn].sort(), served.sort());
});

test('the Content-Security-Policy allows only the console’s own files and no framing', async () => {
  for (const path of /** @type {const} */ (['/', '/sessions/abc'])) {
    const { headers } = await hub.web('headers').get(path, { headers: NAVIGATION });
    const policy = headers['content-security-policy'];
    for (const part of /** @type {const} */ (["default-src 'none'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"])) {
      assert.ok(policy.split('; ').includes(part), part);
    }
    // The hash is that of the script in the page that determines the prefix.
    assert.match(policy, /; script-src 'self' 'sha256-[\w+/=]+';/);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    const names = ['x-content-type-options', 'referrer-policy', 'cache-control'];
    assert.deepEqual(
      names.map((name) => headers[name]),
      ['nosniff', 'no-referrer', 'no-cache'],
    );
  }
});

test('hashed files are cached for a year, all others are revalidated', async () => {
  const web = hub.web('cache');
  const page = (await web.get('/', { headers: NAVIGATION })).text;
  const files = [...page.matchAll(/(?:src|href)="\.(\/assets\/[^"]+)"/g)].map(([, file]) => file);
  assert.ok(files.length >= 2);
  for (const file of files) assert.equal((await web.get(file)).headers['cache-control'], 'public, max-age=31536000, immutable', file);
  for (const file of ['/sw.js', '/manifest.webmanifest', '/icon.svg']) {
    const { status, headers } = await web.get(file);
    assert.deepEqual([status, headers['cache-control']], [200, 'no-cache'], file);
  }
});

test('can be installed, caches every file of the console, and opens offline, also after a file was opened directly', async (t) => {
  const { page, context } = await visit(t, 'install', WITH_WORKER);
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
  const cached = await page.evaluate(async () => {
    const paths = [];
    for (const name of await caches.keys()) for (const { url } of await (await caches.open(name)).keys()) paths.push(new URL(url).pathname);
    return paths.sort();
  });
  const built = readdirSync(path.join(ROOT, 'web', 'dist', 'assets')).map((file) => `/assets/${file}`);
  assert.deepEqual(cached, ['/', ...built].sort());

  // A file that is opened directly does not replace the cached page.
  for (const file of ['/icon.svg', '/sw.js', '/manifest.webmanifest']) assert.equal((await page.goto(file)).status(), 200, file);
  await page.goto('about:blank');
  await context.setOffline(true);
  // Views that were not opened before.
  for (const [address, name] of [
    ['/new', 'New session'],
    ['/pair', 'Connect a device'],
    ['/archive', 'Archive'],
    ['/settings', 'Settings'],
    ['/machines', 'Machines'],
  ]) {
    await page.goto(`${hub.url}${address}`);
    await page.getByRole('heading', { name, exact: true }).waitFor();
  }
  await page.getByText(/You are offline|Reconnecting/).waitFor();
  await context.setOffline(false);
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
});

test('the page finds its prefix in each of its addresses', () => {
  const page = readFileSync(path.join(ROOT, 'web', 'index.html'), 'utf8');
  const [, script] = /** @type {RegExpExecArray} */ (/<script>(.*?)<\/script>/s.exec(page));
  const routes = [...readFileSync(path.join(ROOT, 'web', 'public', '_redirects'), 'utf8').matchAll(/^(\/\S*) \/ 200$/gm)];
  for (const prefix of ['', '/hub', '/tools/hub']) {
    for (const address of ['/', '/unknown', ...routes.map(([, route]) => route.replaceAll(':', ''))]) {
      const base = { href: '' };
      runInNewContext(script, {
        location: { origin: 'https://a.test', pathname: prefix + address },
        document: { querySelector: () => base },
      });
      assert.equal(base.href, `https://a.test${prefix}/`, prefix + address);
    }
  }
});

test('the console works under a prefix: sign-in, a session, a reload, a notification’s link and the offline page', async (t) => {
  const proxy = await startPrefixProxy(t, hub);
  const { session } = await liveSession(t, hub, {
    namespace: 'prefix',
    tag: '/code/alpha',
    metadata: { path: '/code/alpha', host: 'desk' },
  });
  const { page, context } = await open(t, WITH_WORKER);
  const socket = page.waitForEvent('websocket', (opened) => opened.url().startsWith(`${proxy.url.replace('http', 'ws')}/api/events`));
  await page.goto(signInUrl({ url: proxy.url, token: (name) => hub.token(name) }, 'prefix'));
  await page.locator(`a[href="/hub/sessions/${session.id}"]`).first().click();
  await page.waitForURL(`${proxy.url}/sessions/${session.id}`);
  await socket;
  const chat = new Chat(page);
  await chat.send('Through the proxy.');
  await chat.waitForText('Through the proxy.');
  await page.reload();
  await chat.waitForText('Through the proxy.');
  const scope = await page.evaluate(async () => (await navigator.serviceWorker.ready).scope);
  assert.equal(scope, `${proxy.url}/`);
  const manifest = await (await context.newCDPSession(page)).send('Page.getAppManifest');
  assert.deepEqual([manifest.errors, manifest.url], [[], `${proxy.url}/manifest.webmanifest`]);
  await page.getByRole('link', { name: 'Settings' }).first().click();
  await page.waitForURL(`${proxy.url}/settings`);
  await page.keyboard.press('Control+Home');
  await page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('.skip-link')).click());
  assert.equal(page.url(), `${proxy.url}/settings`);
  await page.getByRole('button', { name: 'Add a device' }).click();
  await page.getByText(`${proxy.url}/pair#`).waitFor();
  // As the service worker does when a notification is clicked.
  await page.evaluate(
    (url) => navigator.serviceWorker.dispatchEvent(new MessageEvent('message', { data: { type: 'open', url } })),
    `${proxy.url}/sessions/${session.id}/files?path=notes`,
  );
  await page.waitForURL(`${proxy.url}/sessions/${session.id}/files?path=notes`);
  await context.setOffline(true);
  await page.goto(`${proxy.url}/sessions/${session.id}`);
  await chat.waitForText('Through the proxy.');
  // The browser guesses the addresses of scripts before the page has determined its prefix.
  assert.deepEqual(
    proxy.otherPaths.filter((other) => !other.startsWith('/assets/')),
    [],
  );
});

test('two hubs under prefixes of one origin keep accounts, drafts, databases and caches apart', async (t) => {
  const { url } = await startPrefixProxy(t, hub);
  const { session } = await liveSession(t, hub, { namespace: 'apart', tag: '/code', metadata: { path: '/code', host: 'desk' } });
  const { page } = await open(t, WITH_WORKER);
  const draft = page.getByLabel('Message to the agent');
  const signInTo = async (address) => {
    await page.goto(signInUrl({ url: address, token: (name) => hub.token(name) }, 'apart', `/sessions/${session.id}`));
    await draft.waitFor();
    await page.evaluate(async () => (await navigator.serviceWorker.ready).scope);
  };
  await signInTo(url);
  await draft.fill('a draft of the first hub');
  await page.goto(`${url}/other/`);
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  await signInTo(`${url}/other`);
  await waitForEqual(() => draft.inputValue(), '');
  await page.goto(`${url}/other/settings`);
  await page.getByRole('button', { name: /^Sign out of/ }).click();
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  const names = await page.evaluate(async () => ({
    databases: (await indexedDB.databases()).map(({ name }) => name).sort(),
    caches: (await caches.keys()).map((name) => name.split(' ')[0]).sort(),
    keys: localStorage.length,
  }));
  assert.deepEqual(names.databases, ['console/hub', 'console/hub/other']);
  assert.deepEqual(names.caches, ['console/hub', 'console/hub/other']);
  assert.equal(names.keys, 0);
  await page.goto(`${url}/sessions/${session.id}`);
  await waitForEqual(() => draft.inputValue(), 'a draft of the first hub');
});

/** Opens a page with a session. It seems a minute old, because the console never reloads a page that was just loaded. */
async function longOpenPage(t, namespace) {
  const { session, cli } = await liveSession(t, hub, {
    namespace,
    tag: '/code/c',
    metadata: { path: '/code/c', host: 'h', name: 'The talk' },
  });
  const { page, context, pageErrors } = await open(t);
  await page.addInitScript(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + 60_000;
  });
  await page.goto(signInUrl(hub, namespace, `/sessions/${session.id}`));
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  const isSameDocument = () => page.evaluate(() => window.sameDocument === true);
  /** Of the errors of the page, the test expects those of views that could not be loaded. */
  const expectLoadErrors = () => {
    for (const error of pageErrors.splice(0)) assert.match(error, /^Error: This view could not be loaded\./);
  };
  return { session, cli, page, context, chat, isSameDocument, expectLoadErrors };
}

/** Responds with 404 for matching files until the page is reloaded, like a hub after a deployment. */
async function simulateDeploy(page, pattern) {
  let isOldPage = true;
  page.on('request', (request) => {
    if (request.isNavigationRequest()) isOldPage = false;
  });
  await page.route(pattern, (route) => (isOldPage ? route.fulfill({ status: 404 }) : route.fallback()));
}

test('offline, a view that cannot be loaded does not reload the page, and a retry online shows the view', async (t) => {
  const { page, context, isSameDocument, expectLoadErrors } = await longOpenPage(t, 'offline');
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('alert').getByText('This view could not be loaded.').waitFor();
  assert.equal(await isSameDocument(), true);
  await context.setOffline(false);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
  expectLoadErrors();
});

test('after a deployment, the page is reloaded if the file of a view is missing, and drafts are kept', async (t) => {
  const { session, cli, page, chat, isSameDocument, expectLoadErrors } = await longOpenPage(t, 'deployed');
  const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1 } } };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState });
  const reason = page.getByRole('dialog').getByLabel(/Reason for the agent/);
  const deny = () => chat.choose(chat.request(), 'Deny with a reason …');
  await deny();
  await reason.fill('Not now, as');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await chat.openComposer();
  await chat.composer.fill('A message that is not');

  await simulateDeploy(page, '**/assets/settings-*.js');
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), false);
  await page.getByRole('link', { name: /The talk/ }).click();
  await page.getByRole('button', { name: 'Draft: A message that is not' }).waitFor();
  await chat.openComposer();
  await waitForValue(chat.composer, 'A message that is not');
  await deny();
  await waitForValue(reason, 'Not now, as');
  expectLoadErrors();
});

test('after a deployment, a page with attached files is reloaded once the files are removed', async (t) => {
  const { page, isSameDocument, expectLoadErrors } = await longOpenPage(t, 'attached');
  await page.locator('input[type=file]').setInputFiles([{ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x') }]);
  const remove = page.getByRole('button', { name: 'Remove notes.txt' });
  await remove.waitFor();
  await simulateDeploy(page, '**/assets/settings-*.js');
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('alert').getByText('send or remove the attached files').waitFor();
  assert.equal(await isSameDocument(), true);
  await page.getByRole('link', { name: /The talk/ }).click();
  await remove.click();
  await remove.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), false);
  expectLoadErrors();
});

test('neither a failed preload alone nor a highlighter that cannot be fetched, without which code stays plain, reloads the page', async (t) => {
  const { session, cli, page, chat, isSameDocument } = await longOpenPage(t, 'preload');
  await page.route('**/assets/highlight-*.js', (route) => route.fulfill({ status: 404 }));
  const highlighterResponse = page.waitForResponse((response) => response.url().includes('/assets/highlight-'));
  const sendText = (text) => cli.sendMessage(session.id, { role: 'agent', content: { type: 'text', text } });
  await sendText('```rust\nfn main() {}\n```');
  await highlighterResponse;
  await chat.waitForText('fn main() {}');
  await sendText('Done.');
  await chat.waitForText('Done.');
  assert.deepEqual([await isSameDocument(), await page.locator('.hljs-keyword').count()], [true, 0]);

  // Only the preload requests a missing file.
  await page.evaluate(() => {
    const append = document.head.appendChild.bind(document.head);
    document.head.appendChild = (/** @type {any} */ link) => {
      if (link.rel === 'modulepreload') link.href = `/assets/gone-${link.href.split('/').at(-1)}`;
      return append(link);
    };
  });
  const preloadResponse = page.waitForResponse((response) => response.url().includes('/assets/gone-settings-'));
  await page.getByRole('link', { name: 'Settings' }).click();
  assert.equal((await preloadResponse).status(), 404);
  await page.getByRole('heading', { name: 'Appearance' }).waitFor();
  assert.equal(await isSameDocument(), true);
});
