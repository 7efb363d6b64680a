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
