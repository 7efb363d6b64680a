/** `fetch` with a timeout. The built-in `fetch` waits forever if the network drops the connection silently. */

import { unreachableError } from './errors.ts';

/** The hub responds to every request within 50 s. */
const IDLE_TIMEOUT_MS = 75_000;

/**
 * Fetches a response and reads its whole body. The timeout restarts with every chunk, so a large file may take longer.
 * @throws {HubError} `unreachable` if the request fails, or the response is incomplete
 */
export async function fetchBuffered(input: RequestInfo | URL, init?: RequestInit, timeoutMs = IDLE_TIMEOUT_MS): Promise<Response> {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const resetIdleTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), timeoutMs);
  };
  resetIdleTimer();
  try {
    const response = await fetch(input, { ...init, signal: controller.signal });
    if (response.body === null) return response;
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    const reader = response.body.getReader();
    for (let { value } = await reader.read(); value; { value } = await reader.read()) {
      chunks.push(value);
      resetIdleTimer();
    }
    return new Response(new Blob(chunks), response);
  } catch {
    throw unreachableError();
  } finally {
    clearTimeout(timer);
  }
}
