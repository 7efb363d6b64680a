/** Numbers that look random and come again with the same seed. */

import { createHash } from 'node:crypto';

export class Random {
  #seed;
  #state;

  /** @param {string} seed */
  constructor(seed) {
    this.#seed = seed;
    this.#state = createHash('sha256').update(seed).digest().readUInt32LE();
  }

  /** A source of its own for somebody: what one draws does not change what another gets. @param {string} name */
  for(name) {
    return new Random(`${this.#seed}/${name}`);
  }

  /** From 0 up to, not including, 1 (mulberry32). */
  fraction() {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `least` to `most`, both included. */
  between(least, most) {
    return least + Math.floor(this.fraction() * (most - least + 1));
  }

  /** True in `percent` of a hundred cases. */
  chance(percent) {
    return this.fraction() * 100 < percent;
  }

  /** A text as agents write them: mostly short, sometimes as long as the output of a tool. */
  text() {
    const length = this.chance(2) ? this.between(10_000, 100_000) : this.between(1, 400);
    return 'abcdefghij klmnopqrstuvw xyzäß€'.repeat(Math.ceil(length / 30)).slice(0, length);
  }
}
