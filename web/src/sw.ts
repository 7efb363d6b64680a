/**
 * The service worker: shows push messages as notifications, answers a permission request from its notification, opens the
 * console when the user clicks a notification, and caches the console's files so that the console opens offline.
 */

/// <reference lib="webworker" />

import { type AnswerFailure, describeAnswerFailure } from './content/answer-failure.ts';
import { type NotificationDetails, notificationText } from './content/notification-text.ts';

declare const self: ServiceWorkerGlobalScope;

/** The address of the hub, with a trailing slash: a proxy may serve the hub under a prefix. */
const HUB = self.registration.scope;

/** The prefix, such as `/hub`; empty without a prefix. It is in each name, because hubs of one origin share databases and caches. */
const PREFIX = new URL(HUB).pathname.slice(0, -1);

/** The start of the names of this hub's caches. */
const CACHES = `console${PREFIX} `;

/** One cache per build: `vite.config.ts` replaces the placeholder with the build's hash. */
const CACHE = `${CACHES}__BUILD__`;

/** The paths of the build's files in the hub, inserted by `vite.config.ts`. */
declare const __FILES__: string[];

/** The paths of the console's pages (`public/_redirects`). Below other paths may be another hub, or files such as `icon.svg`. */
const PAGE_PATH = /^(archive|inbox|machines|new|pair|sessions\/.*|settings(\/.*)?|sign-in)?$/;

/** Returns the path of a URL in the hub, without a leading slash. */
const pathInHub = (url: string): string => url.slice(HUB.length).replace(/[?#].*/, '');

self.addEventListener('install', (event) => {
  event.waitUntil(cacheFiles().then(() => self.skipWaiting()));
});

/** Caches the page and the files of all views, opened or not. The low priority lets the requests of the open page go first. */
async function cacheFiles(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll([HUB, ...__FILES__].map((path) => new Request(path, { priority: 'low' })));
}

self.addEventListener('activate', (event) => {
  event.waitUntil(deleteOldCaches().then(() => self.clients.claim()));
});

/** Keeps the cache of the previous build, whose page may still be open: the worker serves that page until it is loaded again. */
async function deleteOldCaches(): Promise<void> {
  const old = (await caches.keys()).filter((name) => name.startsWith(CACHES) && name !== CACHE);
  await Promise.all(old.slice(0, -1).map((name) => caches.delete(name)));
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const path = pathInHub(request.url);
  if (request.method !== 'GET' || !request.url.startsWith(HUB)) return;
  if (request.mode === 'navigate' && PAGE_PATH.test(path)) event.respondWith(respondWithPage(event, path));
  else if (path.startsWith('assets/')) event.respondWith(respondWithAsset(request));
});

const isHtml = ({ headers }: Response) => headers.get('content-type')?.startsWith('text/html') ?? false;

/** The headers of a session's page name the files of its view, relative to the path. Otherwise, all paths of the console have the same page. */
const SESSION_PAGE = `${HUB}sessions/:id`;
function pageKeyOf(path: string): string | null {
  if (!path.startsWith('sessions/')) return HUB;
  return path.split('/').length === 2 ? SESSION_PAGE : null;
}

/** Responds with the cached page, because a phone takes long to connect, and caches the page of the hub for the next visit. */
async function respondWithPage(event: FetchEvent, path: string): Promise<Response> {
  const cache = await caches.open(CACHE);
  const key = pageKeyOf(path);
  const cached = (key !== null && (await cache.match(key))) || (await cache.match(HUB));
  const fetchPage = async () => {
    const response = await fetch(event.request);
    if (key !== null && response.ok && isHtml(response)) await cache.put(key, response.clone());
    return response;
  };
  if (!cached) return fetchPage();
  const update = async () => {
    const { type, status } = await fetchPage();
    // A proxy in front of the hub asks the user to sign in: shows the response of the proxy.
    if (type !== 'opaqueredirect' && status !== 401 && status !== 403) return;
    await Promise.all([cache.delete(HUB), cache.delete(SESSION_PAGE)]);
    const client = (await self.clients.get(event.resultingClientId)) as WindowClient | undefined;
    await client?.navigate(client.url);
  };
  event.waitUntil(update().catch(() => {}));
  return cached;
}

/** Responds from a cache first. A cached file is never outdated, because its name contains the hash of its content. */
async function respondWithAsset(request: Request): Promise<Response> {
  const cached = await caches.match(request);
  if (cached) return cached;
  const response = await fetch(request);
  if (response.ok) await (await caches.open(CACHE)).put(request, response.clone());
  return response;
}

type PushData = NotificationDetails & {
  /** Absent from an earlier version of the hub. */
  namespace?: string;
  requestId?: string;
  /** Permits one answer to the request. */
  answerToken?: string;
  sentAt?: number;
};

interface PushPayload {
  title: string;
  body: string;
  tag?: string;
  data?: PushData;
}

/** Adds the options that the types of the DOM lack. */
type ExtendedOptions = NotificationOptions & {
  actions?: { action: string; title: string }[];
  renotify?: boolean;
  timestamp?: number;
};

/** The data in a notification, for the handler of its click. */
type NotificationData = PushData & {
  /** When the notification replaced another one, in Unix milliseconds. */
  replacedAt?: number;
};

const DECISIONS: Record<string, 'approved' | 'denied'> = { approve: 'approved', deny: 'denied' };
const ACTIONS = [
  { action: 'approve', title: 'Approve' },
  { action: 'deny', title: 'Deny' },
];
const TOKEN_LIFETIME_MS = 10 * 60_000;
/** A tap within this time after a replacement was meant for the replaced notification. */
const MIN_VIEW_MS = 1000;
/** Longer than the time that the hub waits for the agent. */
const ANSWER_TIMEOUT_MS = 45_000;

self.addEventListener('push', (event) => {
  // Every push must show a notification. Otherwise browsers revoke the permission.
  const payload = (event.data?.json() ?? {
    title: 'Session gateway',
    body: 'Open the console to see what changed.',
  }) as PushPayload;
  event.waitUntil(showPush(payload));
});

const DATABASE_TIMEOUT_MS = 1000;

/** Returns the namespaces of the browser's accounts, as the page has stored them (`state/database.ts`). Empty if they are unknown. */
function readAccountNames(): Promise<string[]> {
  return new Promise((resolve) => {
    // Some browsers never complete an operation of the database.
    setTimeout(() => resolve([]), DATABASE_TIMEOUT_MS);
    const request = indexedDB.open(`console${PREFIX}`, 1);
    // The database does not exist. A page creates it.
    request.onupgradeneeded = () => request.transaction?.abort();
    request.onerror = () => resolve([]);
    request.onsuccess = () => {
      const database = request.result;
      const names = database.transaction('records').objectStore('records').get(['', 'accounts', 'names']);
      names.onerror = () => resolve([]);
      names.onsuccess = () => resolve((names.result as string[] | undefined) ?? []);
      database.close();
    };
  });
}

/** Shows a notification. If the browser has several accounts, the notification names its account. */
async function showPush(payload: PushPayload): Promise<void> {
  const { data = {} } = payload;
  const { title, body, isWhole } = notificationText(data, payload);
  const namesAccount = data.namespace !== undefined && (await readAccountNames()).length > 1;
  const tag = namesAccount && payload.tag !== undefined ? `${data.namespace} ${payload.tag}` : payload.tag;
  const { requestId, answerToken, sentAt = Date.now() } = data;
  const isTokenValid = Date.now() - sentAt < TOKEN_LIFETIME_MS;
  const canAnswer = isWhole && answerToken !== undefined && isTokenValid && maxActions() >= ACTIONS.length;
  const isReplaced = tag !== undefined && (await self.registration.getNotifications({ tag })).length > 0;
  await showNotification(namesAccount ? `${title} · ${data.namespace}` : title, {
    body,
    data: { ...data, ...(isReplaced ? { replacedAt: Date.now() } : {}) } satisfies NotificationData,
    timestamp: sentAt,
    ...(tag === undefined ? {} : { tag }),
    ...(tag !== undefined && requestId !== undefined ? { renotify: true, requireInteraction: true } : {}),
    ...(canAnswer ? { actions: ACTIONS } : {}),
  });
}

const maxActions = (): number => (Notification as { maxActions?: number }).maxActions ?? 0;

const showNotification = (title: string, options: ExtendedOptions) =>
  self.registration.showNotification(title, { icon: 'icon-192.png', ...options });

self.addEventListener('notificationclick', (event) => {
  const { notification, action } = event;
  notification.close();
  const { answerToken, replacedAt } = (notification.data ?? {}) as NotificationData;
  const decision = DECISIONS[action];
  if (decision === undefined || answerToken === undefined) event.waitUntil(openTarget((notification.data ?? {}) as NotificationData));
  else if (replacedAt !== undefined && Date.now() - replacedAt < MIN_VIEW_MS) event.waitUntil(showAgain(notification));
  else event.waitUntil(answerRequest(notification, answerToken, decision));
});

function showAgain({ title, body, tag, data }: Notification): Promise<void> {
  const { replacedAt: _, ...dataToKeep } = data as NotificationData;
  return showNotification(title, { body, tag, data: dataToKeep, requireInteraction: true, actions: ACTIONS });
}

/** Answers the request of a notification. Shows a failure as another notification. */
async function answerRequest(notification: Notification, token: string, decision: 'approved' | 'denied'): Promise<void> {
  const { url, namespace } = notification.data as NotificationData;
  const failure = await postAnswer(token, decision);
  if (failure)
    await showNotification(failure.title, {
      body: failure.text,
      tag: notification.tag,
      data: { url: failure.isRefused ? '/inbox' : url, namespace },
    });
}

async function postAnswer(token: string, decision: string): Promise<AnswerFailure | null> {
  try {
    const response = await fetch('api/answers', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, decision }),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    return response.ok ? null : describeAnswerFailure(response.status, await response.json().catch(() => null));
  } catch {
    return describeAnswerFailure(0, null);
  }
}

/**
 * Opens the page of a notification: in a console of its account, if possible in one that shows the same session, or else in a new window. A file
 * of the hub that is open in a window is no console.
 */
async function openTarget({ url: path = '/', namespace }: PushData): Promise<void> {
  const target = new URL(`.${path}`, HUB);
  const page = target.pathname;
  if (namespace !== undefined) target.searchParams.set('account', namespace);
  const url = target.href;
  const windows = await askWindows();
  const ofAccount = windows.filter(({ shown }) => shown && (namespace === undefined || shown.namespace === namespace));
  const { client } = ofAccount.find(({ shown }) => shown?.path === page || shown?.path.startsWith(`${page}/`)) ?? ofAccount[0] ?? {};
  if (!client) {
    await self.clients.openWindow(url);
    return;
  }
  client.postMessage({ type: 'open', url });
  await client.focus();
}

self.addEventListener('pushsubscriptionchange', (event) => (event as ExtendableEvent).waitUntil(reportLostSubscription()));

/** The browser has dropped or replaced the subscription. Only a console can register a new one, because the worker has no token. */
async function reportLostSubscription(): Promise<void> {
  const open = (await askWindows()).find(({ shown }) => shown);
  if (open) open.client.postMessage({ type: 'push-lost' });
  else
    await showNotification('Notifications have stopped', {
      body: 'The browser has ended them. Open the console to continue.',
      tag: 'push-lost',
    });
}

/** What a console shows. `path`: of its address. */
interface Shown {
  namespace: string;
  path: string;
}

/** Returns the open windows of the hub with what they show. A window that shows no console does not answer. */
async function askWindows(): Promise<{ client: WindowClient; shown: Shown | undefined }[]> {
  const clients = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  // The browser returns all windows of the origin.
  const own = clients.filter(({ url }) => url.startsWith(HUB) && PAGE_PATH.test(pathInHub(url)));
  return Promise.all(own.map(async (client) => ({ client, shown: await askWindow(client) })));
}

/** How long a window may take to answer. Short, because the browser lets a worker focus a window only shortly after a click. */
const ANSWER_TIME_MS = 300;

/** Returns undefined if the window does not answer: the browser may have frozen it. */
function askWindow(client: WindowClient): Promise<Shown | undefined> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    // A page of an earlier version answers with its namespace alone.
    port1.onmessage = ({ data }: MessageEvent<Shown | string>) => resolve(typeof data === 'string' ? { namespace: data, path: '' } : data);
    setTimeout(resolve, ANSWER_TIME_MS);
    client.postMessage({ type: 'account' }, [port2]);
  });
}
