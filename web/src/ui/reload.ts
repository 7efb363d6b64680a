/** Reloads a page whose build has been replaced by a deploy. */

/** A page younger than this already has the current build. */
const MIN_AGE_MS = 10_000;

/**
 * Reloads the page after the code of a view failed to load. A deploy may have removed the files of this build, and some browsers
 * repeat a failed import only after a reload. Does nothing while the hub is unreachable.
 */
export async function reloadOutdatedPage(): Promise<void> {
  if (performance.now() < MIN_AGE_MS) return;
  const page = await fetch('.', { method: 'HEAD', cache: 'no-store' }).catch(() => null);
  if (page?.ok) location.reload();
}
