/** A timer that calls `onSilent` once, when `reset` was not called for `timeoutMs`. */

export class SilenceTimer {
  #timer = null;
  #count = 0;

  /**
   * @param {{timeoutMs: number, onSilent: (count: number) => void, isSilenceExpected?: (count: number) => boolean}} options
   *   `isSilenceExpected`: called at the timeout; if true, the time starts again. `count`: the number of timeouts since the last `reset`
   */
  constructor({ timeoutMs, onSilent, isSilenceExpected = () => false }) {
    this.timeoutMs = timeoutMs;
    this.onSilent = onSilent;
    this.isSilenceExpected = isSilenceExpected;
  }

  start() {
    this.stop();
    this.#count = 0;
    this.#timer = setTimeout(() => this.expire(), this.timeoutMs);
    this.#timer.unref();
  }

  reset() {
    this.#count = 0;
    this.#timer?.refresh();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Ends the time now. The timer must run. */
  expire() {
    this.#count += 1;
    if (this.isSilenceExpected(this.#count)) return this.#timer.refresh();
    this.stop();
    this.onSilent(this.#count);
  }
}
