/** Web push: the service worker, and this browser's subscription with the hub. */

import { signal } from '@preact/signals';
import { data } from './api/client.ts';
import { refusal } from './api/errors.ts';
import { api } from './hub.ts';
import { create, existing } from './subscription.ts';

/**
 * Whether this browser gets notifications. `unsupported`: it has none; `install`: it has some once the page is on the home
 * screen; `blocked`: its person said no.
 */
export type PushState = 'unknown' | 'unsupported' | 'install' | 'off' | 'on' | 'blocked';

/** Notifications of this browser. */
export const push = signal<PushState>('unknown');

/** Registers the service worker, which shows notifications and opens the console without a network. */
export async function registerServiceWorker(): Promise<void> {
  if (!('serviceWorker' in navigator)) return;
  // A browser that refuses, as in a private window, shows the console all the same.
  await navigator.serviceWorker.register('/sw.js', { scope: '/' }).catch(() => null);
}

/** What was begun last. */
let last: Promise<unknown> = Promise.resolve();

/** Begins something after what was begun before it: a reading that came late would undo a change. */
function inTurn<T>(begin: () => Promise<T>): Promise<T> {
  const mine = last.then(begin);
  last = mine.catch(() => {});
  return mine;
}

/** Finds out how notifications are. */
export const readPush = (): Promise<void> =>
  inTurn(async () => {
    push.value = await currentState().catch(() => 'unknown');
  });

async function currentState(): Promise<PushState> {
  if (!('serviceWorker' in navigator && 'PushManager' in window)) {
    // Safari of a phone alone knows this property, and has notifications for pages on the home screen only.
    return 'standalone' in navigator && !navigator.standalone ? 'install' : 'unsupported';
  }
  if (Notification.permission === 'denied') return 'blocked';
  const subscription = await existing();
  if (!subscription || !isOf(subscription, await publicKey())) return 'off';
  // The hub may have dropped it, or it is another hub's: telling it again changes nothing where it is known.
  await tell(subscription);
  return 'on';
}

/**
 * Has the hub notify this browser.
 * @throws {Error} when the browser, the person or the hub refuses
 */
export const subscribe = (): Promise<void> => inTurn(turnOn);

async function turnOn(): Promise<void> {
  const key = await publicKey();
  if ((await Notification.requestPermission()) !== 'granted') {
    push.value = Notification.permission === 'denied' ? 'blocked' : 'off';
    throw new Error('The browser does not allow notifications of this page.');
  }
  const registration = await navigator.serviceWorker.ready;
  // One under another key is in the way, and worth nothing: the hub has got new keys.
  const old = await registration.pushManager.getSubscription();
  if (old && !isOf(old, key)) await old.unsubscribe();
  const subscription = await create(registration.pushManager, key);
  try {
    await tell(subscription);
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
  push.value = 'on';
}

/** Has the hub leave this browser alone. A hub that cannot be reached learns it from the push service, with its next push. */
export const unsubscribe = (): Promise<void> => inTurn(turnOff);

async function turnOff(): Promise<void> {
  const subscription = await existing();
  if (subscription) {
    const told = done(api.DELETE('/api/push/subscribe', { body: { endpoint: subscription.endpoint } }));
    await Promise.allSettled([told, subscription.unsubscribe()]);
  }
  push.value = 'off';
}

/** The hub's key for subscriptions. */
async function publicKey(): Promise<string> {
  return (await data(api.GET('/api/push/vapid-public-key'))).publicKey;
}

/** Whether a subscription was made for a key. */
function isOf(subscription: PushSubscription, key: string): boolean {
  const bytes = new Uint8Array(subscription.options.applicationServerKey ?? []);
  const text = btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  return text === key;
}

async function tell(subscription: PushSubscription): Promise<void> {
  const { p256dh = '', auth = '' } = subscription.toJSON().keys ?? {};
  await done(api.POST('/api/push/subscribe', { body: { endpoint: subscription.endpoint, keys: { p256dh, auth } } }));
}

async function done(call: Promise<{ error?: unknown; response: Response }>): Promise<void> {
  const { error, response } = await call;
  if (!response.ok) throw refusal(response.status, error);
}
