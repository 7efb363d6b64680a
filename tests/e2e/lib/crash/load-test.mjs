/** The shared state of a load test with kills: the hub, the random source, the end of the test, and violated conditions. */

import { setTimeout as sleep } from 'node:timers/promises';
import { deferred, withTimeout } from '../../../../scripts/lib/await.mjs';
import { Random } from './random.mjs';

const RETRY_DELAY_MS = 25;
export class LoadTest {
  /** Error messages of violated conditions. */
  violations = [];
  /** When true, the clients start nothing new, and finish their operations in progress. */
  isEnding = false;
  /** Counters for the report. @type {Record<string, number>} */
  counts = {};
  #isAborted = false;
  #signals = [];

  /**
   * @param {import('../hub.mjs').Hub} hub
   * @param {string} seed
   */
  constructor(hub, seed) {
    this.hub = hub;
    this.random = new Random(seed);
  }

  /** Records a violation unless the condition is true. @param {boolean} condition @param {string} message */
  expect(condition, message) {
    if (!condition) this.violations.push(message);
  }

  count(what, times = 1) {
    this.counts[what] = (this.counts[what] ?? 0) + times;
  }

  /** Aborts all clients with an error. */
  abort() {
    this.isEnding = this.#isAborted = true;
    this.#signals.forEach((signal) => signal.notify());
  }

  throwIfAborted() {
    if (this.#isAborted) throw new Error('The load test was aborted.');
  }

  /** @param {string} owner for error messages */
  signal(owner) {
    const signal = new Signal(this, owner);
    this.#signals.push(signal);
    return signal;
  }

  /** Waits before a retry. */
  async pause() {
    await sleep(RETRY_DELAY_MS);
    this.throwIfAborted();
  }

  /**
   * Sends a request until the hub answers with a status below 500.
   * @param {() => Promise<import('../../../../scripts/product/clients/web.mjs').Answer>} request
   * @param {{onUnknownOutcome?: () => void, isCanceled?: () => boolean}} [options] `onUnknownOutcome`: called when a failed
   *   request may have had its effect
   * @returns {Promise<import('../../../../scripts/product/clients/web.mjs').Answer | undefined>} undefined when it was canceled
   */
  async retry(request, { onUnknownOutcome = () => {}, isCanceled = () => false } = {}) {
    while (!isCanceled()) {
      try {
        const answer = await request();
        if (answer.status < 500) return answer;
        this.count(`answers with ${answer.status} ${answer.body?.code}`);
        if (answer.body?.code === 'hub_unavailable') onUnknownOutcome();
      } catch {
        this.count('requests without an answer');
        onUnknownOutcome();
      }
      await this.pause();
    }
    return undefined;
  }

  /** Repeats an action until the test is ending, with pauses of up to `ms` milliseconds. */
  async repeat(random, ms, action) {
    while (!this.isEnding) {
      await action();
      await sleep(random.between(0, ms));
    }
  }
}

/** Wakes the functions that wait for a state of a client, after each change of the client. */
class Signal {
  #next = deferred();

  /** @param {LoadTest} loadTest @param {string} owner */
  constructor(loadTest, owner) {
    this.loadTest = loadTest;
    this.owner = owner;
  }

  notify() {
    const { resolve } = this.#next;
    this.#next = deferred();
    resolve();
  }

  /** Waits until `test` returns true. `test` is called after every change. @param {string} what for the error message */
  async waitUntil(test, what) {
    while (!test()) {
      await withTimeout(this.#next.promise, `${this.owner} ${what}`);
      this.loadTest.throwIfAborted();
    }
  }
}
