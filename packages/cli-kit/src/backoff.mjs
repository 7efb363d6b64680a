/** Growing pauses between attempts. */

export class Backoff {
  #pauseMs = 0;

  /** @param {{minMs: number, maxMs: number, random?: () => number}} options the first pause doubles with each attempt, up to `maxMs` */
  constructor({ minMs, maxMs, random = Math.random }) {
    this.minMs = minMs;
    this.maxMs = maxMs;
    this.random = random;
  }

  /** Returns the next pause: a random half to whole of it, so that many clients do not try again at the same moment. */
  next() {
    this.#pauseMs = Math.min(Math.max(this.minMs, this.#pauseMs * 2), this.maxMs);
    return this.#pauseMs * (0.5 + this.random() / 2);
  }

  /** To be called after a success. */
  reset() {
    this.#pauseMs = 0;
  }
}
