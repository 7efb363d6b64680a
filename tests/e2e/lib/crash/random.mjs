/** Pseudo-random numbers. The same seed always gives the same numbers. */

import { createHash } from 'node:crypto';

export class Random {
  #seed;
  #state;

  /** @param {string} seed */
  constructor(seed) {
    this.#seed = seed;
    this.#state = createHash('sha256').update(seed).digest().readUInt32LE();
  }

  /** Returns an independent source with a name. Numbers drawn from one source do not affect another source. @param {string} name */
  fork(name) {
    return new Random(`${this.#seed}/${name}`);
  }

  /** Returns a number from 0 inclusive to 1 exclusive (mulberry32). */
  fraction() {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns a whole number from `min` to `max`, inclusive. */
  between(min, max) {
    return min + Math.floor(this.fraction() * (max - min + 1));
  }

  /** Returns true with a probability in percent. */
  chance(percent) {
    return this.fraction() * 100 < percent;
  }

  /** Returns a text with a typical length of agents' messages: mostly short, sometimes as long as a tool's output. */
  text() {
    const length = this.chance(2) ? this.between(10_000, 100_000) : this.between(1, 400);
    return 'abcdefghij klmnopqrstuvw xyzäß€'.repeat(Math.ceil(length / 30)).slice(0, length);
  }
}
