/** Promises for tests. */

/** A promise with its two ends. */
export function deferred() {
  let resolve;
  let reject;
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** A turn of the event loop, so that everything that is ready has run. */
export const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A log that remembers its warnings. */
export function quietLog() {
  const warnings = [];
  return { info() {}, debug() {}, warn: (text) => warnings.push(text), warnings };
}
