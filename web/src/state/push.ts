/** Push notifications of this browser: the service worker, and the subscription that is registered with the hub. */

import { signal } from '@preact/signals';
import { unwrap } from '../api/client.ts';
import { responseError } from '../api/errors.ts';
import { createSubscription, getSubscription } from '../api/push-subscription.ts';
import { api, auth } from './hub-client.ts';

/** `install`: notifications need the page on the home screen. `blocked`: the user denied the permission. */
export type PushStatus = 'unknown' | 'unsupported' | 'install' | 'off' | 'on' | 'blocked';

export const pushStatus = signal<PushStatus>('unknown');

/** Registers the service worker, which shows notifications and opens the console without a network. */
export async function registerServiceWorker(): Promise<void> {
  if (!('serviceWorker' in navigator)) return;
  // Some browsers refuse service workers in private windows. The console works without one.
  await navigator.serviceWorker.register('/sw.js', { scope: '/' }).catch(() => null);
}

let lastOperation: Promise<unknown> = Promise.resolve();

/** Runs an operation after all earlier operations, so that a slow status check does not overwrite a later change. */
function serialize<T>(operation: () => Promise<T>): Promise<T> {
  const result = lastOperation.then(operation);
  lastOperation = result.catch(() => {});
  return result;
}

export const refreshPushStatus = (): Promise<void> =>
  serialize(async () => {
    pushStatus.value = await detectStatus().catch(() => 'unknown');
  });

async function detectStatus(): Promise<PushStatus> {
  if (!('serviceWorker' in navigator && 'PushManager' in window)) {
    // Only Safari on iOS has the property `standalone`. Safari on iOS allows notifications only for pages on the home screen.
    return 'standalone' in navigator && !navigator.standalone ? 'install' : 'unsupported';
  }
  if (Notification.permission === 'denied') return 'blocked';
  const subscription = await getSubscription();
  if (!subscription || !usesKey(subscription, await fetchPublicKey())) return 'off';
  // The hub may have dropped the subscription. Otherwise, the registration changes nothing.
  await register(subscription);
  return 'on';
}

/**
 * Turns notifications on in this browser.
 * @throws {Error} if the user or the browser denies notifications, or the hub cannot be reached
 */
export const subscribe = (): Promise<void> => serialize(enable);

async function enable(): Promise<void> {
  const key = await fetchPublicKey();
  if ((await Notification.requestPermission()) !== 'granted') {
    pushStatus.value = Notification.permission === 'denied' ? 'blocked' : 'off';
    throw new Error('Allow notifications for this page in the browser, then try again.');
  }
  const registration = await navigator.serviceWorker.ready;
  // The hub cannot use a subscription for another key, and the browser allows only one subscription.
  const existing = await registration.pushManager.getSubscription();
  if (existing && !usesKey(existing, key)) await existing.unsubscribe();
  const subscription = await createSubscription(registration.pushManager, key);
  try {
    await register(subscription);
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
  pushStatus.value = 'on';
}

/** Turns notifications off. A hub that cannot be reached drops the subscription later, when its next push fails. */
export const unsubscribe = (): Promise<void> => serialize(disable);

async function disable(): Promise<void> {
  const subscription = await getSubscription();
  if (subscription) {
    const unregistered = expectOk(api.DELETE('/api/push/subscribe', { body: { endpoint: subscription.endpoint } }));
    await Promise.allSettled([unregistered, subscription.unsubscribe()]);
  }
  pushStatus.value = 'off';
}

/** Returns the hub's VAPID public key, base64url-encoded. */
async function fetchPublicKey(): Promise<string> {
  return (await unwrap(api.GET('/api/push/vapid-public-key'))).publicKey;
}

function usesKey(subscription: PushSubscription, key: string): boolean {
  const bytes = new Uint8Array(subscription.options.applicationServerKey ?? []);
  const text = btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
  return text === key;
}

async function register(subscription: PushSubscription): Promise<void> {
  const { p256dh = '', auth: secret = '' } = subscription.toJSON().keys ?? {};
  await expectOk(
    api.POST('/api/push/subscribe', {
      body: { endpoint: subscription.endpoint, keys: { p256dh, auth: secret }, device: auth.ensureDeviceId() },
    }),
  );
}

async function expectOk(call: Promise<{ error?: unknown; response: Response }>): Promise<void> {
  const { error, response } = await call;
  if (!response.ok) throw responseError(response.status, error);
}
