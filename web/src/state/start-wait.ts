/** How long the first requests of the page wait for the event stream. */

/**
 * The first requests wait this long for the event stream, because a response from before the stream's start is fetched again. A stream
 * that starts more slowly must not delay the first screen.
 */
const MAX_WAIT_MS = 300;
/** The limit while the page shows stored data. On a slow network, a WebSocket opens after several round trips. */
const MAX_STORED_WAIT_MS = 5000;

export const delay = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Resolves when the first requests may be sent although the event stream has not started. On a slow network, a page without stored data
 * does not wait.
 * @param isSlow whether the network is slow; called when the page has a JWT
 * @param restored resolves when the stored data is shown
 * @param isStoredShown whether the page shows stored data
 * @throws if the page gets no JWT: then the event stream does not start
 */
export async function waitForStream(
  jwt: Promise<unknown>,
  isSlow: () => boolean,
  restored: Promise<unknown>,
  isStoredShown: () => boolean,
): Promise<void> {
  await jwt;
  // A database that does not answer must not delay the requests.
  await Promise.race([delay(MAX_WAIT_MS), ...(isSlow() ? [restored] : [])]);
  if (isStoredShown()) await delay(MAX_STORED_WAIT_MS);
}
