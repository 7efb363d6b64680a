/**
 * Push notifications of this browser. The browser has one subscription, which is registered in each account that has notifications on.
 */

import { signal } from '@preact/signals';
import type { Account } from '../api/accounts.ts';
import { type Api, unwrap } from '../api/client.ts';
import { HubError, REQUEST_ID_HEADER, responseError } from '../api/errors.ts';
import { createSubscription, getSubscription } from '../api/push-subscription.ts';
import { accounts } from './account.ts';
import { api, auth } from './hub-client.ts';
import { apiOfAccount } from './other-accounts.ts';
import { isPushLost } from './store.ts';

/** `install`: notifications need the page on the home screen. `blocked`: the user denied the permission. */
export type PushStatus = 'unknown' | 'unsupported' | 'install' | 'off' | 'on' | 'blocked';

export const pushStatus = signal<PushStatus>('unknown');

/** What this device is notified about. */
export type PushChoice = 'requests' | 'all';

const CHOICE_KEY = 'notify';

export const pushChoice = signal<PushChoice>(localStorage.getItem(CHOICE_KEY) === 'requests' ? 'requests' : 'all');

/** Changes what this device is notified about. */
export function setPushChoice(choice: PushChoice): Promise<void> {
  const before = pushChoice.value;
  pushChoice.value = choice;
  return serialize(async () => {
    const subscription = await getSubscription();
    const account = currentAccount();
    try {
      if (subscription && account?.notifies) await register(api, account, subscription, choice);
    } catch (error) {
      pushChoice.value = before;
      throw error;
    }
    localStorage.setItem(CHOICE_KEY, choice);
    if (subscription) await registerInOtherAccounts(subscription);
  });
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
    setStatus(await restoreRegistration().catch(statusAfter));
  });

/** Without the hub, the status is unknown. Any other error is the browser's, which does not renew the subscription. */
const statusAfter = (error: unknown): PushStatus => (error instanceof HubError ? 'unknown' : 'off');

function setStatus(status: PushStatus): void {
  pushStatus.value = status;
  isPushLost.value = currentAccount()?.notifies === true && (status === 'off' || status === 'blocked');
}

/**
 * Returns the status of the page's account. If notifications are on, also creates and registers the subscription where the browser or the hub
 * has dropped it.
 */
async function restoreRegistration(): Promise<PushStatus> {
  if (!('serviceWorker' in navigator && 'PushManager' in window)) {
    // Only Safari on iOS has the property `standalone`. Safari on iOS allows notifications only for pages on the home screen.
    return 'standalone' in navigator && !navigator.standalone ? 'install' : 'unsupported';
  }
  if (Notification.permission === 'denied') return 'blocked';
  let subscription = await getSubscription();
  const account = currentAccount();
  if (!account) return 'off';
  const { namespace, notifies = subscription !== null } = account;
  accounts.setNotifies(namespace, notifies);
  if (!notifies || Notification.permission !== 'granted') return 'off';
  const key = await fetchPublicKey();
  if (subscription === null) {
    // Another account has replaced the subscription, or the browser has dropped it.
    subscription = await createSubscription((await navigator.serviceWorker.ready).pushManager, key);
    await registerInOtherAccounts(subscription);
  } else if (!usesKey(subscription, key)) return 'off';
  // The hub may have dropped the subscription. Otherwise, the registration changes nothing.
  await register(api, account, subscription);
  return 'on';
}

const currentAccount = (): Account | null => (auth.namespace === null ? null : accounts.get(auth.namespace));

/** Returns the accounts besides the page's own that have notifications on. */
const otherNotifyingAccounts = () => accounts.all().filter(({ namespace, notifies }) => notifies && namespace !== auth.namespace);

/**
 * Turns notifications on in this browser.
 * @throws {Error} if the user or the browser denies notifications, or the hub cannot be reached
 */
export const subscribe = (): Promise<void> => serialize(enable);

async function enable(): Promise<void> {
  const key = await fetchPublicKey();
  if ((await Notification.requestPermission()) !== 'granted') {
    setStatus(Notification.permission === 'denied' ? 'blocked' : 'off');
    throw new Error('Allow notifications for this page in the browser, then try again.');
  }
  const registration = await navigator.serviceWorker.ready;
  // The hub cannot use a subscription for another key, and the browser allows only one subscription.
  const existing = await registration.pushManager.getSubscription();
  if (existing && !usesKey(existing, key)) await existing.unsubscribe();
  const subscription = await createSubscription(registration.pushManager, key);
  const account = currentAccount();
  if (!account) return;
  try {
    await register(api, account, subscription);
  } catch (error) {
    if (otherNotifyingAccounts().length === 0) await subscription.unsubscribe();
    throw error;
  }
  accounts.setNotifies(account.namespace, true);
  if (existing?.endpoint !== subscription.endpoint) await registerInOtherAccounts(subscription);
  setStatus('on');
}

/** Turns notifications off in the page's account. */
export const unsubscribe = (): Promise<void> => serialize(disable);

async function disable(): Promise<void> {
  if (auth.namespace !== null) accounts.setNotifies(auth.namespace, false);
  const subscription = await getSubscription();
  if (subscription) {
    const { endpoint } = subscription;
    const isUnregistered = await expectOk(api.DELETE('/api/push/subscribe', { body: { endpoint } })).then(
      () => true,
      () => false,
    );
    await releaseSubscription(subscription, isUnregistered);
  }
  setStatus('off');
}

/**
 * Keeps the browser's subscription if the hub has removed it from the page's account (`isUnregistered`) and another account needs it. Otherwise
 * deletes the subscription, and gives the other accounts a new one. The hub drops the old subscription when the push service answers the next
 * push with 404 or 410.
 */
async function releaseSubscription(subscription: PushSubscription, isUnregistered: boolean): Promise<void> {
  if (isUnregistered && otherNotifyingAccounts().length > 0) return;
  await subscription.unsubscribe().catch(() => {});
  await renewSubscription().catch(() => {});
}

/** Replaces the subscription after the hub has refused an account: the hub may still send the pushes of this account to the old one. */
export const replaceSubscription = (): Promise<void> =>
  serialize(async () => {
    const subscription = await getSubscription();
    if (subscription) await releaseSubscription(subscription, false);
    setStatus(await restoreRegistration().catch(statusAfter));
  });

/** Creates the subscription of the other accounts again. After an error, each account creates the subscription when it is opened. */
async function renewSubscription(): Promise<void> {
  const [first] = otherNotifyingAccounts();
  if (!first) return;
  const { publicKey } = await unwrap(apiOfAccount(first.namespace).GET('/api/push/vapid-public-key'));
  await registerInOtherAccounts(await createSubscription((await navigator.serviceWorker.ready).pushManager, publicKey));
}

/** Registers a new subscription in the other accounts. Each account repeats this when it is opened. */
async function registerInOtherAccounts(subscription: PushSubscription): Promise<void> {
  await Promise.allSettled(otherNotifyingAccounts().map((account) => register(apiOfAccount(account.namespace), account, subscription)));
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

async function register(
  hub: Pick<Api, 'POST'>,
  { device }: Account,
  subscription: PushSubscription,
  notify = pushChoice.value,
): Promise<void> {
  const { p256dh = '', auth: secret = '' } = subscription.toJSON().keys ?? {};
  const body = { endpoint: subscription.endpoint, keys: { p256dh, auth: secret }, device, notify };
  await expectOk(hub.POST('/api/push/subscribe', { body }));
}

async function expectOk(call: Promise<{ error?: unknown; response: Response }>): Promise<void> {
  const { error, response } = await call;
  if (!response.ok) throw responseError(response.status, error, response.headers.get(REQUEST_ID_HEADER));
}
