// Waits for events and conditions, with time limits.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

/** Returns a time limit for this computer. `npm test` measures how slow it is (gate/slowness.mjs). @param {number} ms */
export const limit = (ms) => ms * (Number(process.env.TEST_SLOWNESS) || 1);

/** The default time limit; long, because other programs may keep the computer busy. */
export const TIMEOUT_MS = limit(60_000);

const pauses = monitorEventLoopDelay();
pauses.enable();

/**
 * Creates a promise with its `resolve` and `reject` functions.
 * @template [T=any]
 * @returns {{promise: Promise<T>, resolve: (value?: T) => void, reject: (error: unknown) => void}}
 */
export function deferred() {
  let resolve;
  let reject;
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** The error of a wait that ended without its event. `npm test` runs such a test once more: its computer may have been too busy. */
export class TimeoutError extends Error {
  name = 'TimeoutError';

  /** @param {string} what the event @param {number} ms the time limit @param {string} [details] */
  constructor(what, ms, details = '') {
    const pauseMs = Math.round(pauses.max / 1e6);
    const busy = pauseMs > 1_000 ? ` This process could not run for up to ${pauseMs} ms.` : '';
    super(`Timed out after ${ms / 1000} s waiting for ${what}.${busy}${details}`);
  }
}

/**
 * Waits for a promise with a time limit.
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what the event, for the error message
 * @param {number} [ms]
 * @returns {Promise<T>}
 */
export async function withTimeout(promise, what, ms = TIMEOUT_MS) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(what, ms)), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Polls `test` until it returns a truthy value, for conditions without an event. The pauses between two calls double, from 10 ms to 100.
 * @template T
 * @param {() => Promise<T> | T} test
 * @param {string} what
 * @param {number} [ms]
 * @returns {Promise<NonNullable<T>>}
 */
export async function eventually(test, what, ms = TIMEOUT_MS) {
  const deadline = Date.now() + ms;
  for (let pause = 10; ; pause = Math.min(2 * pause, 100)) {
    const found = await test();
    if (found) return found;
    if (Date.now() > deadline) throw new TimeoutError(what, ms);
    await sleep(pause);
  }
}

/**
 * Records items in order of arrival, and waits for items.
 * @template T
 */
export class Recorder {
  /** All items, oldest first. */
  all = [];
  #nextIndex = 0;
  #endReason = null;
  #changed = deferred();

  /** @param {string} source of the items, for error messages, such as "the events of A" */
  constructor(source) {
    this.source = source;
  }

  /** @param {T} item */
  push(item) {
    this.all.push(item);
    this.#notifyChange();
  }

  /** Ends the recording. Calls that wait for further items fail with the reason. @param {string} reason */
  end(reason) {
    this.#endReason ??= reason;
    this.#notifyChange();
  }

  /** Waits for the end of the recording. Resolves to the reason. @param {string} what */
  async waitForEnd(what, ms = TIMEOUT_MS) {
    const deadline = Date.now() + ms;
    while (!this.#endReason) await this.#waitForChange(`the end of ${this.source}: ${what}`, ms, deadline);
    return this.#endReason;
  }

  /**
   * Waits for the first matching item after the item that the previous call returned. Skips items that do not match.
   * @param {(item: T) => unknown} matches
   * @param {string} what
   * @param {number} [ms]
   * @returns {Promise<T>}
   */
  async next(matches, what, ms = TIMEOUT_MS) {
    const deadline = Date.now() + ms;
    for (let index = this.#nextIndex; ; index += 1) {
      while (index >= this.all.length) await this.#waitForChange(`${what} in ${this.source}`, ms, deadline);
      if (matches(this.all[index])) {
        this.#nextIndex = index + 1;
        return this.all[index];
      }
    }
  }

  /** Waits for the first matching item of the whole recording. @see next */
  async first(matches, what, ms = TIMEOUT_MS) {
    const deadline = Date.now() + ms;
    for (;;) {
      const found = this.all.find(matches);
      if (found !== undefined) return found;
      await this.#waitForChange(`${what} in ${this.source}`, ms, deadline);
    }
  }

  /** @param {string} what @param {number} ms the original time limit, for the error message @param {number} deadline */
  async #waitForChange(what, ms, deadline) {
    const last = JSON.stringify(this.all.slice(-5))?.slice(0, 2000);
    if (this.#endReason) throw new Error(`Waiting for ${what} failed: ${this.#endReason}. The last items: ${last}`);
    try {
      await withTimeout(this.#changed.promise, what, Math.max(0, deadline - Date.now()));
    } catch {
      throw new TimeoutError(what, ms, ` The last items: ${last}`);
    }
  }

  #notifyChange() {
    const { resolve } = this.#changed;
    this.#changed = deferred();
    resolve();
  }
}
