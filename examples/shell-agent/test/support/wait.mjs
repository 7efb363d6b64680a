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

/** A log that remembers what it was told. */
export function quietLog() {
  const warnings = [];
  const infos = [];
  return { info: (text) => infos.push(text), debug() {}, warn: (text) => warnings.push(text), infos, warnings };
}
