/** The console behind a proxy that serves the hub under a prefix. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { signInUrl, waitForEqual } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';
import { startPrefixProxy } from '../lib/prefix-proxy.mjs';

const { hub, open } = await startConsole({ serviceWorkers: 'allow' });

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
  const { page, context } = await open(t);
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
  const { page } = await open(t);
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
