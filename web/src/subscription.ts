/** This browser's push subscription, as the browser keeps it. */

/** The subscription, if there is one. */
export async function existing(): Promise<PushSubscription | null> {
  // A browser without service workers has none.
  const registration = await navigator.serviceWorker?.getRegistration('/');
  return (await registration?.pushManager?.getSubscription()) ?? null;
}

/** Ends it, whether the hub knows or not: the push service tells the hub with its next push. */
export async function end(): Promise<void> {
  await (await existing())?.unsubscribe();
}

/** How long a browser's push service may take, in milliseconds. Some never answer, as behind a firewall. */
const SERVICE_MS = 30_000;

/**
 * Asks the browser's push service for a subscription under the hub's key.
 * @throws {Error} in words for the person
 */
export async function create(manager: Pick<PushManager, 'subscribe'>, key: string): Promise<PushSubscription> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('The push service of this browser does not answer. Try again later, or from another network.')), SERVICE_MS);
  });
  const subscribing = manager.subscribe({ userVisibleOnly: true, applicationServerKey: key }).catch((error: Error) => {
    throw new Error(`This browser gives out no notifications here, as in a private window. (It says: ${error.message})`);
  });
  try {
    return await Promise.race([subscribing, late]);
  } finally {
    clearTimeout(timer);
  }
}
