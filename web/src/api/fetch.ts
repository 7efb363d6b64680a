/** `fetch` as the console uses it: it ends, with a whole answer or none. */

import { unreachable } from './errors.ts';

/** Without an answer, or a further part of one, for this long a request has failed. The hub answers each within 50 s. */
const SILENCE_MS = 75_000;

/**
 * Fetches an answer with all of its body. A network that loses everything tells nobody, and what waits for an answer would
 * wait for ever; an answer that keeps coming in, such as a large file, may take its time.
 * @throws {HubError} `unreachable` when there is no answer, or not all of one
 */
export async function fetchWhole(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), SILENCE_MS);
  };
  wait();
  try {
    const response = await fetch(input, { ...init, signal: controller.signal });
    if (response.body === null) return response;
    const parts: Uint8Array<ArrayBuffer>[] = [];
    const reader = response.body.getReader();
    for (let { value } = await reader.read(); value; { value } = await reader.read()) {
      parts.push(value);
      wait();
    }
    return new Response(new Blob(parts), response);
  } catch {
    throw unreachable();
  } finally {
    clearTimeout(timer);
  }
}
