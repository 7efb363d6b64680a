/** Pushes in a real browser, whose own push service is out of reach: a subscription of the local one, and its messages. */

import { eventually } from './await.mjs';

/** How long, in milliseconds, a message may take to be shown before it is brought again. */
const SHOWN_MS = 3000;

/**
 * Has a browser's push manager give out a subscription, from the next page on. Like the browser's own it is kept over a
 * reload, and goes with its key.
 * @param {import('playwright-core').BrowserContext} context
 * @param {{endpoint: string, keys: {p256dh: string, auth: string}}} subscription
 */
export async function giveOut(context, subscription) {
  await context.grantPermissions(['notifications']);
  await context.addInitScript((json) => {
    if (!('PushManager' in window)) return;
    const KEY = 'subscribed under';
    const current = () => {
      const key = localStorage.getItem(KEY);
      if (key === null) return null;
      const bytes = Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0));
      const unsubscribe = async () => (localStorage.removeItem(KEY), true);
      return { endpoint: json.endpoint, options: { applicationServerKey: bytes.buffer }, toJSON: () => json, unsubscribe };
    };
    PushManager.prototype.getSubscription = async () => current();
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
      const key = localStorage.getItem(KEY);
      if (!userVisibleOnly || atob(applicationServerKey.replaceAll('-', '+').replaceAll('_', '/')).length !== 65) throw new TypeError('Not like that.');
      if (key !== null && key !== applicationServerKey) throw new DOMException('There is one under another key.', 'InvalidStateError');
      localStorage.setItem(KEY, applicationServerKey);
      return current();
    };
  }, subscription);
}

/**
 * Brings a decrypted message to the page's service worker, as the browser's push service would.
 * @param {import('playwright-core').Page} page
 * @param {unknown} payload
 */
export async function deliver(page, payload) {
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  const client = await page.context().newCDPSession(page);
  const registered = new Promise((resolve) => {
    client.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: [one] }) => one && resolve(one.registrationId));
  });
  await client.send('ServiceWorker.enable');
  const registrationId = await registered;
  const { tag } = payload;
  const isShown = () => page.evaluate(async (name) => (await (await navigator.serviceWorker.ready).getNotifications({ tag: name })).length > 0, tag);
  // On a busy machine the browser loses one now and then, and says nothing. By its tag it is one, however often it comes.
  await eventually(async () => {
    await client.send('ServiceWorker.deliverPushMessage', { origin: new URL(page.url()).origin, registrationId, data: JSON.stringify(payload) });
    return eventually(isShown, 'the notification', SHOWN_MS).catch(() => false);
  }, 'the notification');
  await client.detach();
}

/** The one notification that the page's service worker shows, once it does. @param {import('playwright-core').Page} page */
export function shown(page) {
  const read = () =>
    page.evaluate(async () => {
      const [first] = await (await navigator.serviceWorker.ready).getNotifications();
      return first && { title: first.title, body: first.body, tag: first.tag, data: first.data };
    });
  return eventually(read, 'the notification');
}

/**
 * Clicks on the notification that is shown. A window may be opened by a person's click only: what would be opened is
 * answered instead.
 * @param {import('playwright-core').Page} page
 * @returns {Promise<string[]>} the addresses
 */
export function click(page) {
  const [worker] = page.context().serviceWorkers();
  return worker.evaluate(async () => {
    const opened = [];
    self.clients.openWindow = async (url) => void opened.push(url);
    const [notification] = await self.registration.getNotifications();
    const event = new NotificationEvent('notificationclick', { notification });
    const done = [];
    event.waitUntil = (promise) => done.push(promise);
    self.dispatchEvent(event);
    // A window may not be brought to the front by a program's click either.
    await Promise.allSettled(done);
    return opened;
  });
}

/** Has a page believe that nobody looks at it, or that somebody does. */
export function turn(page, visibility) {
  return page.evaluate((value) => {
    Object.defineProperty(document, 'visibilityState', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, visibility);
}
