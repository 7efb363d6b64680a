/**
 * The service worker: shows push messages as notifications, opens the console when the user clicks a notification, and
 * caches the console's files so that the console opens offline.
 */

/// <reference lib="webworker" />

declare const self: ServiceWorkerGlobalScope;

/** One cache per build: `vite.config.ts` replaces the placeholder with the build's hash. */
const CACHE = 'console __BUILD__';

/** The paths of the build's files, inserted by `vite.config.ts`. */
declare const __FILES__: string[];

/** Paths of the hub's API, which are never served from the cache. */
const API_PATH = /^\/(api|cli|socket\.io|health)(\/|$)/;

self.addEventListener('install', (event) => {
  event.waitUntil(cacheFiles().then(() => self.skipWaiting()));
});

/** Caches the page and the files of all views, opened or not. The low priority lets the requests of the open page go first. */
async function cacheFiles(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(['/', ...__FILES__].map((path) => new Request(path, { priority: 'low' })));
}

self.addEventListener('activate', (event) => {
  event.waitUntil(deleteOldCaches().then(() => self.clients.claim()));
});

async function deleteOldCaches(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== self.location.origin || API_PATH.test(url.pathname)) return;
  if (request.mode === 'navigate') event.respondWith(respondWithPage(request));
  else if (url.pathname.startsWith('/assets/')) event.respondWith(respondWithAsset(request));
});

/** Whether a response is the page. A file that is opened directly, such as `/icon.svg`, must not replace the page in the cache. */
const isHtml = ({ headers }: Response) => headers.get('content-type')?.startsWith('text/html') ?? false;

/** Responds with the page of the hub, or offline with the cached page. All paths of the console have the same page. */
async function respondWithPage(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok && isHtml(response)) await cache.put('/', response.clone());
    return response;
  } catch (error) {
    const cached = await cache.match('/');
    if (cached) return cached;
    throw error;
  }
}

/** Responds from the cache first. A cached file is never outdated, because its name contains the hash of its content. */
async function respondWithAsset(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const cached = await cache.match(request);
  if (cached) return cached;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

interface PushPayload {
  title: string;
  body: string;
  tag?: string;
  data?: { url?: string; sessionId?: string };
}

self.addEventListener('push', (event) => {
  // Every push must show a notification. Otherwise browsers revoke the permission.
  const { title, body, tag, data } = (event.data?.json() ?? {
    title: 'Session gateway',
    body: 'Open the console to see what changed.',
  }) as PushPayload;
  event.waitUntil(self.registration.showNotification(title, { body, data, icon: '/icon-192.png', ...(tag === undefined ? {} : { tag }) }));
});

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const { url = '/' } = (event.notification.data ?? {}) as { url?: string };
  event.waitUntil(openUrl(new URL(url, self.location.origin).href));
});

/** Opens a URL in an open window of the console, or in a new one. */
async function openUrl(url: string): Promise<void> {
  const [client] = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!client) {
    await self.clients.openWindow(url);
    return;
  }
  client.postMessage({ type: 'open', url });
  await client.focus();
}

export {};
