/** What everybody under load shares: the hub that is killed again and again, the seed, the end, and what went wrong. */

import { setTimeout as sleep } from 'node:timers/promises';
import { deferred, within } from '../await.mjs';
import { Random } from './random.mjs';

/** How long somebody waits before trying again with a hub that was not there, in milliseconds. */
const RETRY_MS = 25;
/** How long anybody waits for anything, in milliseconds. Heartbeats come twice as often. */
export const SILENCE_MS = 60_000;

export class Storm {
  /** What broke a rule, as sentences. */
  faults = [];
  /** Once set, nobody begins anything new; what was begun is finished. */
  calm = false;
  /** For the report: how often something happened. @type {Record<string, number>} */
  counts = {};
  #over = false;
  #signals = [];

  /**
   * @param {import('../hub.mjs').Hub} hub
   * @param {string} seed
   */
  constructor(hub, seed) {
    this.hub = hub;
    this.random = new Random(seed);
  }

  /** @param {boolean} kept @param {string} rule what is told when it was not kept */
  rule(kept, rule) {
    if (!kept) this.faults.push(rule);
  }

  count(what, times = 1) {
    this.counts[what] = (this.counts[what] ?? 0) + times;
  }

  /** Ends everything that is still under way with an error. */
  end() {
    this.calm = this.#over = true;
    this.#signals.forEach((signal) => signal.give());
  }

  /** Fails once everything is to end. */
  check() {
    if (this.#over) throw new Error('The storm is over.');
  }

  /** @param {string} whose */
  signal(whose) {
    const signal = new Signal(this, whose);
    this.#signals.push(signal);
    return signal;
  }

  /** A pause before the next try. */
  async pause() {
    await sleep(RETRY_MS);
    this.check();
  }

  /**
   * Asks until the hub answers: it may be gone at the moment, or may say that it cannot do it now.
   * @param {() => Promise<import('../web.mjs').Answer>} ask
   * @param {{lost?: () => void, unless?: () => boolean}} [options] `lost` is called after a try that may have been done
   *   all the same; `unless` tells that nobody wants the answer any more
   * @returns {Promise<import('../web.mjs').Answer | undefined>}
   */
  async persist(ask, { lost = () => {}, unless = () => false } = {}) {
    while (!unless()) {
      try {
        const answer = await ask();
        if (answer.status < 500) return answer;
        this.count(`answers of ${answer.status} ${answer.body?.code}`);
        if (answer.body?.code === 'hub_unavailable') lost();
      } catch {
        this.count('requests without an answer');
        lost();
      }
      await this.pause();
    }
    return undefined;
  }

  /** Does something again and again until the calm, with pauses of up to `ms` milliseconds. */
  async repeat(random, ms, act) {
    while (!this.calm) {
      await act();
      await sleep(random.between(0, ms));
    }
  }
}

/** Tells those who wait for somebody that something about it changed. */
class Signal {
  #next = deferred();

  /** @param {Storm} storm @param {string} whose */
  constructor(storm, whose) {
    Object.assign(this, { storm, whose });
  }

  give() {
    const { resolve } = this.#next;
    this.#next = deferred();
    resolve();
  }

  /** Settled when `test` answers true, which it is asked after every change. @param {string} what */
  async until(test, what) {
    while (!test()) {
      await within(this.#next.promise, `${this.whose} ${what}`, SILENCE_MS);
      this.storm.check();
    }
  }
}
