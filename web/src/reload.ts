/** Loads the page again when a file of its build can no longer be fetched. */

/** A page younger than this, in milliseconds, is current: loading it again would not help. */
const MIN_AGE_MS = 10_000;

/**
 * Reloads the page after the code of a view failed to load: a deploy may have removed the files of this build, and some
 * browsers repeat a failed import only after a reload. Does nothing while the hub is unreachable.
 */
export async function reloadOutdatedPage(): Promise<void> {
  if (performance.now() < MIN_AGE_MS) return;
  const page = await fetch('/', { method: 'HEAD', cache: 'no-store' }).catch(() => null);
  if (page?.ok) location.reload();
}
