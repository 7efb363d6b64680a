/** The service worker: shows what the hub pushes, opens the session of a notification, and the console without a network. */

/// <reference lib="webworker" />

declare const self: ServiceWorkerGlobalScope;

/** One a build: `vite.config.ts` puts the build's mark in. */
const CACHE = 'console __BUILD__';

/** The build's files, by their paths: `vite.config.ts` puts them in. */
declare const __FILES__: string[];

/** Paths of the hub's interface, which are never answered from the cache. */
const INTERFACE = /^\/(api|cli|socket\.io|health)(\/|$)/;

self.addEventListener('install', (event) => {
  event.waitUntil(keepFiles().then(() => self.skipWaiting()));
});

/**
 * Keeps the page and every file of it, for views that are opened without a network the first time. What the page itself
 * loads goes first.
 */
async function keepFiles(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(['/', ...__FILES__].map((path) => new Request(path, { priority: 'low' })));
}

self.addEventListener('activate', (event) => {
  event.waitUntil(dropOldCaches().then(() => self.clients.claim()));
});

async function dropOldCaches(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== self.location.origin || INTERFACE.test(url.pathname)) return;
  if (request.mode === 'navigate') event.respondWith(page(request));
  else if (url.pathname.startsWith('/assets/')) event.respondWith(asset(request));
});

/** Whether this is HTML: every address of the console is the same page, and a file that is opened by itself is none. */
const isPage = ({ headers }: Response) => headers.get('content-type')?.startsWith('text/html') ?? false;

/** The page from the hub, and the last one that was seen when there is no network. */
async function page(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok && isPage(response)) await cache.put('/', response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match('/');
    if (kept) return kept;
    throw error;
  }
}

/** A built file: its name changes with its content, so what is kept is good. */
async function asset(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

interface Pushed {
  title: string;
  body: string;
  tag?: string;
  data?: { url?: string; sessionId?: string };
}

self.addEventListener('push', (event) => {
  // A browser takes the permission away from who shows nothing.
  const { title, body, tag, data } = (event.data?.json() ?? { title: 'Session gateway', body: 'Something happened.' }) as Pushed;
  event.waitUntil(self.registration.showNotification(title, { body, data, icon: '/icon-192.png', ...(tag === undefined ? {} : { tag }) }));
});

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const { url = '/' } = (event.notification.data ?? {}) as { url?: string };
  event.waitUntil(show(new URL(url, self.location.origin).href));
});

/** Shows an address in a window that is open, or in a new one. */
async function show(url: string): Promise<void> {
  const [open] = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!open) {
    await self.clients.openWindow(url);
    return;
  }
  open.postMessage({ type: 'open', url });
  await open.focus();
}

export {};
