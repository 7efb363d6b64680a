/** Push messages in a real browser. The browser's push service is unreachable, so a local push service replaces it. */

import { eventually } from '../../../scripts/lib/await.mjs';

/** The time after which a message that is not shown is delivered again. */
const REDELIVER_MS = 3000;

/**
 * Replaces the push manager of later pages by a mock that returns this subscription. Like a real subscription, the mock subscription
 * survives a reload and belongs to one key.
 * @param {import('playwright-core').BrowserContext} context
 * @param {{endpoint: string, keys: {p256dh: string, auth: string}}} subscription
 */
export async function mockPushManager(context, subscription) {
  await context.grantPermissions(['notifications']);
  await context.addInitScript((json) => {
    if (!('PushManager' in window)) return;
    const STORAGE_KEY = 'subscription key';
    const current = () => {
      const key = localStorage.getItem(STORAGE_KEY);
      if (key === null) return null;
      const bytes = Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0));
      const unsubscribe = async () => (localStorage.removeItem(STORAGE_KEY), true);
      return { endpoint: json.endpoint, options: { applicationServerKey: bytes.buffer }, toJSON: () => json, unsubscribe };
    };
    /** @type {any} */
    const manager = PushManager.prototype;
    manager.getSubscription = async () => current();
    manager.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
      const key = localStorage.getItem(STORAGE_KEY);
      if (!userVisibleOnly || atob(applicationServerKey.replaceAll('-', '+').replaceAll('_', '/')).length !== 65)
        throw new TypeError('Invalid subscription options.');
      if (key !== null && key !== applicationServerKey)
        throw new DOMException('A subscription for another key exists.', 'InvalidStateError');
      localStorage.setItem(STORAGE_KEY, applicationServerKey);
      return current();
    };
  }, subscription);
}

/**
 * Delivers a decrypted message to the page's service worker, like the browser's push service.
 * @param {import('playwright-core').Page} page
 * @param {{tag: string}} payload
 */
export async function deliverPush(page, payload) {
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  const client = await page.context().newCDPSession(page);
  const registered = new Promise((resolve) => {
    client.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: [first] }) => first && resolve(first.registrationId));
  });
  await client.send('ServiceWorker.enable');
  const registrationId = await registered;
  const { tag } = payload;
  const isShown = () =>
    page.evaluate(async (name) => {
      const shown = await (await navigator.serviceWorker.ready).getNotifications();
      // With several accounts, the worker adds the namespace before the tag.
      return shown.some((notification) => notification.tag.endsWith(name));
    }, tag);
  // Under load the browser sometimes drops a message silently. Several messages with the same tag are shown as one notification.
  await eventually(async () => {
    await client.send('ServiceWorker.deliverPushMessage', {
      origin: new URL(page.url()).origin,
      registrationId,
      data: JSON.stringify(payload),
    });
    return eventually(isShown, 'the notification', REDELIVER_MS).catch(() => false);
  }, 'the notification');
  await client.detach();
}

/** Waits for the notification of the page's service worker. @param {import('playwright-core').Page} page */
export function waitForNotification(page) {
  const read = () =>
    page.evaluate(async () => {
      const [first] = await (await navigator.serviceWorker.ready).getNotifications();
      return (
        first && { title: first.title, body: first.body, tag: first.tag, data: first.data, actions: /** @type {any} */ (first).actions }
      );
    });
  return eventually(read, 'the notification');
}

/**
 * Clicks the visible notification. Browsers open windows only for real clicks, so the URLs are returned instead.
 * @param {import('playwright-core').Page} page
 * @param {string} [button] the action of the clicked button
 * @returns {Promise<string[]>} the URLs that would be opened
 */
export function clickNotification(page, button) {
  const [worker] = page.context().serviceWorkers();
  return worker.evaluate(async (action) => {
    const opened = [];
    /** The global scope of a service worker. @type {any} */
    const scope = self;
    scope.clients.openWindow = async (url) => void opened.push(url);
    const [notification] = await scope.registration.getNotifications();
    const event = new scope.NotificationEvent('notificationclick', { notification, action });
    const done = [];
    event.waitUntil = (promise) => done.push(promise);
    scope.dispatchEvent(event);
    // `focus()` fails, too, because the click is not real.
    await Promise.allSettled(done);
    return opened;
  }, button);
}

/** Sets the visibility that a page sees. */
export function setPageVisibility(page, visibility) {
  return page.evaluate((value) => {
    Object.defineProperty(document, 'visibilityState', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, visibility);
}
