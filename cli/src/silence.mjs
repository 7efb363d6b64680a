/** Calls `onSilent` once when `reset` was not called for some time. */

export class SilenceTimer {
  #timer = null;

  /**
   * @param {{ms: number, onSilent: () => void, isBusy?: () => boolean}} options `isBusy`: whether silence is expected; while it
   *   is, the time starts again
   */
  constructor({ ms, onSilent, isBusy = () => false }) {
    this.ms = ms;
    this.onSilent = onSilent;
    this.isBusy = isBusy;
  }

  start() {
    this.stop();
    this.#timer = setTimeout(() => this.#expire(), this.ms);
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
    if (this.isBusy()) return this.#timer.refresh();
    this.stop();
    this.onSilent();
  }
}
