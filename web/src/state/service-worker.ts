/** The service worker, which shows notifications and opens the console without a network. */

export async function registerServiceWorker(): Promise<void> {
  if (!('serviceWorker' in navigator)) return;
  // Some browsers refuse service workers in private windows. The console works without a service worker.
  await navigator.serviceWorker.register('sw.js').catch(() => null);
}
