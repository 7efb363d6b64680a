/** Helpers for asynchronous tests. */

import { TIMEOUT_MS } from '../../../../scripts/lib/await.mjs';

export { deferred } from '../../../../scripts/lib/await.mjs';

/** Waits for one pass of the event loop. */
export const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/**
 * Polls `test` until it returns true, for conditions without an event.
 * @param {() => boolean} test
 * @param {string} what the condition, for the error message
 * @param {number} [ms] timeout
 */
export async function eventually(test, what, ms = TIMEOUT_MS) {
  const deadline = Date.now() + ms;
  while (!test()) {
    if (Date.now() > deadline) throw new Error(`Timed out after ${ms / 1000} s waiting for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A log that records its lines. */
export function quietLog() {
  const warnings = [];
  const infos = [];
  return { info: (text) => infos.push(text), debug() {}, warn: (text) => warnings.push(text), infos, warnings };
}
