/** Waiting for what happens, instead of sleeping until it should have happened. */

import { setTimeout as sleep } from 'node:timers/promises';

/** How long a test waits for something that happens at once. Other programs may keep the machine busy. */
export const PATIENCE_MS = 20_000;

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

/**
 * Settled like `promise`, or failed when that takes longer than `ms` milliseconds.
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what what was waited for, as the end of a sentence
 * @param {number} [ms]
 * @returns {Promise<T>}
 */
export async function within(promise, what, ms = PATIENCE_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Waited ${ms / 1000} s in vain for ${what}.`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Asks `test` again and again until it answers something. Only for what nobody tells of.
 * @template T
 * @param {() => Promise<T> | T} test
 * @param {string} what
 * @param {number} [ms]
 * @returns {Promise<NonNullable<T>>}
 */
export async function eventually(test, what, ms = PATIENCE_MS) {
  const deadline = Date.now() + ms;
  for (;;) {
    const found = await test();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`Waited ${ms / 1000} s in vain for ${what}.`);
    await sleep(250);
  }
}

/**
 * Things in the order they came, to be waited for and looked at afterwards.
 * @template T
 */
export class Recorder {
  /** Everything that came, oldest first. */
  all = [];
  #at = 0;
  #failure = null;
  #changed = deferred();

  /** @param {string} whose names the source in a failed wait, such as "the events of A" */
  constructor(whose) {
    this.whose = whose;
  }

  /** @param {T} item */
  push(item) {
    this.all.push(item);
    this.#change();
  }

  /** Nothing more will come: whoever waits hears why. @param {string} why */
  end(why) {
    this.#failure ??= why;
    this.#change();
  }

  /** Why nothing more will come, as soon as that is so. @param {string} what */
  async ended(what, ms = PATIENCE_MS) {
    const deadline = Date.now() + ms;
    while (!this.#failure) await this.#more(`${what} after ${this.whose}`, deadline - Date.now());
    return this.#failure;
  }

  /**
   * The first item that matches after the one that the last call answered; those in between are passed over.
   * @param {(item: T) => unknown} matches
   * @param {string} what
   * @param {number} [ms]
   * @returns {Promise<T>}
   */
  async next(matches, what, ms = PATIENCE_MS) {
    const deadline = Date.now() + ms;
    for (let at = this.#at; ; at += 1) {
      while (at >= this.all.length) await this.#more(`${what} among ${this.whose}`, deadline - Date.now());
      if (matches(this.all[at])) {
        this.#at = at + 1;
        return this.all[at];
      }
    }
  }

  /** The first item of all that matches, whether it came already or not. @see next */
  async first(matches, what, ms = PATIENCE_MS) {
    const deadline = Date.now() + ms;
    for (;;) {
      const found = this.all.find(matches);
      if (found !== undefined) return found;
      await this.#more(`${what} among ${this.whose}`, deadline - Date.now());
    }
  }

  async #more(what, ms) {
    const last = JSON.stringify(this.all.slice(-5))?.slice(0, 2000);
    if (this.#failure) throw new Error(`Waited in vain for ${what}: ${this.#failure}. What came last: ${last}`);
    try {
      await within(this.#changed.promise, what, Math.max(0, ms));
    } catch (error) {
      throw new Error(`${error.message} What came last: ${last}`);
    }
  }

  #change() {
    const { resolve } = this.#changed;
    this.#changed = deferred();
    resolve();
  }
}
