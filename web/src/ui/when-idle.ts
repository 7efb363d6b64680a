/** Work that must not delay what the user sees. */

/** Idle callbacks run at the latest after this time. */
const MAX_WAIT_MS = 2000;

/** Runs a function when the page has nothing else to do. Returns a function that cancels the run. Safari has no idle callbacks. */
export function whenIdle(run: () => void): () => void {
  if (typeof requestIdleCallback === 'undefined') {
    const timer = setTimeout(run, 200);
    return () => clearTimeout(timer);
  }
  const handle = requestIdleCallback(run, { timeout: MAX_WAIT_MS });
  return () => cancelIdleCallback(handle);
}
