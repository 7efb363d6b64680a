/** Helpers for asynchronous tests. */

import { TIMEOUT_MS, eventually as poll } from '../../../../scripts/lib/await.mjs';

export { deferred } from '../../../../scripts/lib/await.mjs';

/** Waits for one pass of the event loop. */
export const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Polls a condition every 10 ms. @see poll */
export const eventually = (test, what, ms = TIMEOUT_MS) => poll(test, what, ms, 10);

/** A log that records its lines. */
export function quietLog() {
  const warnings = [];
  const infos = [];
  return { info: (text) => infos.push(text), debug() {}, warn: (text) => warnings.push(text), infos, warnings };
}
