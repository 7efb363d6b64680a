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

/**
 * Asks `test` again and again until it says yes. Only for what nobody tells of.
 * @param {() => boolean} test
 * @param {string} what what is waited for, as the end of a sentence
 * @param {number} [ms] how long at most
 */
export async function eventually(test, what, ms = 15_000) {
  const deadline = Date.now() + ms;
  while (!test()) {
    if (Date.now() > deadline) throw new Error(`Waited ${ms / 1000} s in vain for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A log that remembers what it was told. */
export function quietLog() {
  const warnings = [];
  const infos = [];
  return { info: (text) => infos.push(text), debug() {}, warn: (text) => warnings.push(text), infos, warnings };
}
