/** Helpers for asynchronous tests. */

export { deferred, eventually } from '../../../../scripts/lib/await.mjs';

/** Waits for one pass of the event loop. */
export const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A log that records its lines. */
export function quietLog() {
  const warnings = [];
  const infos = [];
  return { info: (text) => infos.push(text), debug() {}, warn: (text) => warnings.push(text), infos, warnings };
}
