// The service worker: cached pages, the window that a click on a notification opens, and subscriptions that the browser drops.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { pluck } from './support/pluck.ts';
import { flushPromises } from './support/promises.ts';

const HUB = 'https://hub.test/';

type Handler = (event: object) => void;

const handlers = new Map<string, Handler>();
const hub = { fetch: async (): Promise<Response> => Promise.reject(new TypeError('Failed to fetch')) };
const cached = new Map<string, Response>();
let windows: FakeWindow[] = [];
let opened: string[] = [];
let notified: string[] = [];

/** A window of the hub. `shown`: what its console answers to the service worker; undefined if it shows no console. */
class FakeWindow {
  received: { type?: string; url?: string }[] = [];
  isFocused = false;
  navigations = 0;
  shown: unknown;
  url: string;
  constructor(shown?: unknown, url = HUB) {
    this.shown = shown;
    this.url = url;
  }
  postMessage(message: { type?: string }, [port]: FakePort[] = []) {
    if (message.type !== 'account') this.received.push(message);
    else if (this.shown !== undefined) port?.postMessage(this.shown);
  }
  async navigate() {
    this.navigations += 1;
  }
  async focus() {
    this.isFocused = true;
  }
}

type FakePort = { postMessage: (data: unknown) => void };

/** Delivers a message as a microtask, so that a test can wait for it. */
class FakeChannel {
  port1: { onmessage: ((event: { data: unknown }) => void) | null } = { onmessage: null };
  port2: FakePort = { postMessage: (data) => queueMicrotask(() => this.port1.onmessage?.({ data })) };
}

const cache = {
  match: async (key: string) => cached.get(key)?.clone(),
  put: async (key: string, response: Response) => void cached.set(key, response),
  delete: async (key: string) => cached.delete(key),
};
let cacheNames: string[] = [];
Object.assign(globalThis, {
  self: {
    addEventListener: (type: string, handler: Handler) => handlers.set(type, handler),
    location: new URL('https://hub.test/sw.js'),
    registration: { scope: HUB, showNotification: async (title: string) => void notified.push(title) },
    clients: {
      matchAll: async () => windows,
      openWindow: async (url: string) => void opened.push(url),
      claim: async () => {},
      get: async () => windows[0],
    },
  },
  MessageChannel: FakeChannel,
  caches: {
    open: async () => cache,
    keys: async () => cacheNames,
    delete: async (name: string) => void (cacheNames = cacheNames.filter((other) => other !== name)),
  },
  fetch: () => hub.fetch(),
});
await import('../src/sw.ts');

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout'] });
  cached.clear();
  windows = [];
  opened = [];
  notified = [];
});
afterEach(() => mock.timers.reset());

const page = (text: string) => new Response(text, { headers: { 'content-type': 'text/html' } });

/** Opens a page. Returns the response of the worker, if it responds, and what the worker waits for. */
function request(path: string): { response: Promise<Response> | undefined; done: () => Promise<unknown> } {
  let response: Promise<Response> | undefined;
  const waits: Promise<unknown>[] = [];
  handlers.get('fetch')?.({
    request: { method: 'GET', mode: 'navigate', url: HUB + path },
    respondWith: (answer: Promise<Response>) => (response = answer),
    waitUntil: (wait: Promise<unknown>) => waits.push(wait),
  });
  return { response, done: () => Promise.all(waits) };
}

function navigate(path = ''): { response: Promise<Response>; done: () => Promise<unknown> } {
  const { response, done } = request(path);
  assert.ok(response, path);
  return { response, done };
}

test('opens the cached page before the hub answers, and caches the page of the hub for the next visit', async () => {
  let answer = (_: Response) => {};
  hub.fetch = () => new Promise((resolve) => (answer = resolve));
  const first = navigate();
  await flushPromises();
  answer(page('old'));
  assert.equal(await (await first.response).text(), 'old', 'without a cached page');
  await first.done();
  const second = navigate();
  assert.equal(await (await second.response).text(), 'old');
  answer(page('new'));
  await second.done();
  assert.equal(await cached.get(HUB)?.text(), 'new');
});

test('the page of a session is cached for sessions only, and the page of a view of a session is not cached', async () => {
  for (const path of ['sessions/a', 'sessions/a/files', 'inbox']) {
    hub.fetch = async () => page(path);
    const { response, done } = navigate(path);
    await response;
    await done();
  }
  const shown = async (path: string) => (await navigate(path).response).text();
  const paths = ['sessions/b', 'sessions/b/files', '', 'machines?account=a.b'];
  assert.deepEqual(await Promise.all(paths.map(shown)), ['sessions/a', 'inbox', 'inbox', 'inbox']);
});

test('responds to the console’s pages, and not to those of another hub of the origin', async () => {
  cached.set(HUB, page('console'));
  hub.fetch = async () => page('console');
  const redirects = readFileSync(new URL('../public/_redirects', import.meta.url), 'utf8');
  const routes = [...redirects.matchAll(/^\/(\S+) \/ 200$/gm)].map(([, route = '']) => route);
  assert.ok(routes.length > 5);
  for (const path of ['', ...routes]) await navigate(path).done();
  for (const path of ['other-hub/', 'other-hub/inbox', 'api/sessions', 'icon.svg']) assert.equal(request(path).response, undefined, path);
});

test('opens the cached page if the hub cannot be reached, and fails without a cached page', async () => {
  hub.fetch = async () => Promise.reject(new TypeError('Failed to fetch'));
  await assert.rejects(navigate().response, /Failed to fetch/);
  cached.set(HUB, page('old'));
  const { response, done } = navigate();
  assert.equal(await (await response).text(), 'old');
  await done();
});

/** Opens a page, and waits until the worker has handled the response of the hub. */
async function visit(): Promise<void> {
  const { response, done } = navigate();
  await response;
  await done();
}

test('shows the page of a proxy that asks the user to sign in, but no error of the hub', async () => {
  const window = new FakeWindow();
  windows = [window];
  const redirect = Object.defineProperty(new Response(), 'type', { value: 'opaqueredirect' });
  const answer = (status: number) => new Response('', { status });
  for (const [response, navigations] of [
    [answer(500), 0],
    [answer(404), 0],
    [answer(401), 1],
    [answer(403), 2],
    [redirect, 3],
  ] as const) {
    cached.set(HUB, page('old'));
    hub.fetch = async () => response;
    await visit();
    assert.deepEqual([window.navigations, cached.size], [navigations, navigations === 0 ? 1 : 0], `${response.status} ${response.type}`);
    if (navigations === 0) continue;
    assert.equal(await navigate().response, response);
    assert.equal(window.navigations, navigations);
  }
});

test('a new build keeps the files of the build before it, whose page may be open', async () => {
  cacheNames = ['console 1', 'other', 'console/other-hub 1', 'console 2', 'console __BUILD__'];
  const waits: Promise<unknown>[] = [];
  handlers.get('activate')?.({ waitUntil: (wait: Promise<unknown>) => waits.push(wait) });
  await Promise.all(waits);
  assert.deepEqual(cacheNames, ['other', 'console/other-hub 1', 'console 2', 'console __BUILD__']);
});

/** Clicks a notification of the session `a`. */
async function click(namespace?: string): Promise<void> {
  const waits: Promise<unknown>[] = [];
  handlers.get('notificationclick')?.({
    notification: { close: () => {}, data: { url: '/sessions/a', ...(namespace === undefined ? {} : { namespace }) } },
    action: '',
    waitUntil: (wait: Promise<unknown>) => waits.push(wait),
  });
  await flushPromises();
  mock.timers.tick(300);
  await Promise.all(waits);
}

const mine = { namespace: 'mine', path: '/sessions/a' };
const shows = (namespace: string, path: string) => new FakeWindow({ namespace, path });

for (const { name, windows: open, clicked } of [
  { name: 'a window that shows the session', windows: [shows('mine', '/'), shows('mine', '/sessions/a/files')], clicked: 1 },
  { name: 'another window of the account', windows: [shows('other', '/sessions/a'), shows('mine', '/sessions/ab')], clicked: 1 },
  { name: 'a new window if all others belong to another account', windows: [shows('other', '/sessions/a')], clicked: null },
  { name: 'a new window if the others show no console', windows: [new FakeWindow()], clicked: null },
  { name: 'a new window if the others show another hub', windows: [new FakeWindow(mine, `${HUB}other-hub/sessions/a`)], clicked: null },
  { name: 'a window of an earlier version', windows: [new FakeWindow('other'), new FakeWindow('mine')], clicked: 1 },
])
  test(`a click on a notification uses ${name}`, async () => {
    windows = open;
    await click('mine');
    const url = 'https://hub.test/sessions/a?account=mine';
    assert.deepEqual(
      pluck(open, 'isFocused', 'received'),
      open.map((_, index) => (index === clicked ? [true, [{ type: 'open', url }]] : [false, []])),
    );
    assert.deepEqual(opened, clicked === null ? [url] : []);
  });

test('a click on a notification of an earlier hub, which names no account, uses any console', async () => {
  windows = [new FakeWindow(), shows('mine', '/')];
  await click();
  assert.deepEqual(pluck(windows, 'isFocused'), [false, true]);
});

for (const { name, windows: open, received, shown } of [
  {
    name: 'asks one open console to renew it',
    windows: [new FakeWindow(), shows('mine', '/'), shows('other', '/')],
    received: 1,
    shown: [],
  },
  { name: 'says so if no console is open', windows: [new FakeWindow()], received: null, shown: ['Notifications have stopped'] },
])
  test(`when the browser drops the subscription, the worker ${name}`, async () => {
    windows = open;
    const waits: Promise<unknown>[] = [];
    handlers.get('pushsubscriptionchange')?.({ waitUntil: (wait: Promise<unknown>) => waits.push(wait) });
    await flushPromises();
    mock.timers.tick(300);
    await Promise.all(waits);
    assert.deepEqual(
      pluck(open, 'received'),
      open.map((_, index) => (index === received ? [{ type: 'push-lost' }] : [])),
    );
    assert.deepEqual(notified, shown);
  });
