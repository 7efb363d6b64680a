/** A timer that calls `onSilent` once, when `reset` was not called for `timeoutMs`. */

export class SilenceTimer {
  #timer = null;

  /**
   * @param {{timeoutMs: number, onSilent: () => void, isSilenceExpected?: () => boolean}} options `isSilenceExpected`: called at
   *   the timeout; if true, the time starts again
   */
  constructor({ timeoutMs, onSilent, isSilenceExpected = () => false }) {
    this.timeoutMs = timeoutMs;
    this.onSilent = onSilent;
    this.isSilenceExpected = isSilenceExpected;
  }

  start() {
    this.stop();
    this.#timer = setTimeout(() => this.#expire(), this.timeoutMs);
    this.#timer.unref();
  }

  reset() {
    this.#timer?.refresh();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  #expire() {
    if (this.isSilenceExpected()) return this.#timer.refresh();
    this.stop();
    this.onSilent();
  }
}
