/** The push subscription of this browser (Push API). `state/push.ts` registers it with the hub. */

/** Returns the browser's subscription, or null. Browsers without service workers never have one. */
export async function getSubscription(): Promise<PushSubscription | null> {
  const registration = await navigator.serviceWorker?.getRegistration();
  return (await registration?.pushManager?.getSubscription()) ?? null;
}

/** Deletes the subscription in the browser only. The hub drops the subscription when the push service answers the next push with 404 or 410. */
export async function deleteSubscription(): Promise<void> {
  await (await getSubscription())?.unsubscribe();
}

/** Needed because some push services never answer, for example behind a firewall. */
const SUBSCRIBE_TIMEOUT_MS = 30_000;

/**
 * Creates a subscription for the hub's VAPID public key.
 * @throws {Error} with a message for the user
 */
export async function createSubscription(manager: Pick<PushManager, 'subscribe'>, vapidPublicKey: string): Promise<PushSubscription> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    const fail = () => reject(new Error('The browser’s push service did not respond. Try again later or from another network.'));
    timer = setTimeout(fail, SUBSCRIBE_TIMEOUT_MS);
  });
  const subscription = manager.subscribe({ userVisibleOnly: true, applicationServerKey: vapidPublicKey }).catch((error: Error) => {
    throw new Error(`This browser cannot receive notifications here, for example in a private window. (Browser error: ${error.message})`);
  });
  try {
    return await Promise.race([subscription, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
