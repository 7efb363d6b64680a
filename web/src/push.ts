/** Web push: the service worker, and this browser's subscription with the hub. */

import { signal } from '@preact/signals';
import { refusal } from './api/errors.ts';
import { api } from './hub.ts';

/** Whether this browser gets notifications. `unsupported`: the browser or the hub has none. */
export type PushState = 'unknown' | 'unsupported' | 'off' | 'on' | 'blocked';

/** Notifications of this browser. */
export const push = signal<PushState>('unknown');

/** Registers the service worker, which shows notifications and opens the console without a network. */
export async function registerServiceWorker(): Promise<void> {
  if (!('serviceWorker' in navigator)) return;
  // A browser that refuses, as in a private window, shows the console all the same.
  await navigator.serviceWorker.register('/sw.js', { scope: '/' }).catch(() => null);
}

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  return api.fetch(new Request(new URL(path, location.origin), init));
}

/** The hub's key for subscriptions; null when it sends no notifications. */
async function publicKey(): Promise<string | null> {
  const response = await ask('/api/push/vapid-public-key');
  if (response.status === 404 || response.status === 501) return null;
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw refusal(response.status, body);
  return (body as { publicKey: string }).publicKey;
}

/** Finds out how notifications are. */
export async function readPush(): Promise<void> {
  try {
    if (!('serviceWorker' in navigator && 'PushManager' in window) || (await publicKey()) === null) {
      push.value = 'unsupported';
    } else if (Notification.permission === 'denied') {
      push.value = 'blocked';
    } else {
      const registration = await navigator.serviceWorker.getRegistration('/');
      const subscription = await registration?.pushManager.getSubscription();
      push.value = subscription ? 'on' : 'off';
    }
  } catch {
    push.value = 'unknown';
  }
}

/**
 * Has the hub notify this browser.
 * @throws {Error} when the browser, the person or the hub refuses
 */
export async function subscribe(): Promise<void> {
  const key = await publicKey();
  if (key === null) throw new Error('This hub sends no notifications.');
  if ((await Notification.requestPermission()) !== 'granted') {
    push.value = Notification.permission === 'denied' ? 'blocked' : 'off';
    throw new Error('The browser does not allow notifications of this page.');
  }
  const registration = await navigator.serviceWorker.ready;
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  try {
    await send('POST', { endpoint, keys });
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
  push.value = 'on';
}

/** Has the hub leave this browser alone. */
export async function unsubscribe(): Promise<void> {
  const registration = await navigator.serviceWorker.getRegistration('/');
  const subscription = await registration?.pushManager.getSubscription();
  if (subscription) {
    await send('DELETE', { endpoint: subscription.endpoint });
    await subscription.unsubscribe();
  }
  push.value = 'off';
}

async function send(method: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const response = await ask('/api/push/subscribe', { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw refusal(response.status, await response.json().catch(() => null));
}
