/**
 * The order of mode changes. After the approval of a plan, the agent selects a mode itself and reports the mode. A mode that the user has
 * selected together with the approval is set after the report. Otherwise the agent's mode would replace the user's mode.
 */

import { setTimeout as delay } from 'node:timers/promises';

/** Limit on the wait for a report, because not every agent reports the mode that it selects. */
const REPORT_TIMEOUT_MS = 1000;

export class ModeChanges {
  #pending = Promise.resolve();
  #count = 0;
  #mode;
  #resolveReport = (/** @type {unknown} */ _value) => {};

  /** To be called when a plan was approved. */
  expectModeReport() {
    const reported = new Promise((resolve) => (this.#resolveReport = resolve));
    this.#track(undefined, Promise.race([reported, delay(REPORT_TIMEOUT_MS, undefined, { ref: false })]));
  }

  /** To be called when the agent has reported a mode. */
  onModeReport() {
    this.#resolveReport(undefined);
  }

  /**
   * Sets a mode after the earlier changes.
   * @param {string} mode
   * @param {() => Promise<unknown>} work
   */
  run(mode, work) {
    return this.#track(mode, this.#pending.then(work));
  }

  /**
   * Waits for all changes in progress.
   * @returns {Promise<string | undefined>} the mode that was set last; undefined if no change was in progress
   */
  async waitForChanges() {
    let mode;
    while (this.#count > 0) {
      await this.#pending;
      mode = this.#mode ?? mode;
    }
    return mode;
  }

  #track(mode, change) {
    this.#count += 1;
    this.#mode = mode;
    this.#pending = change.then(
      () => (this.#count -= 1),
      () => (this.#count -= 1),
    );
    return change;
  }
}
