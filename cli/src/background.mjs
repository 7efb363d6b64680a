/**
 * Work of the agent outside of a turn, such as the report on a background command that has ended, or a sub-agent that works on. While it
 * lasts, the session counts as working, its text is live, and an abort ends it.
 */

/** The end of the work, if the agent does not report it: nothing was written for this long, and no call runs. */
const SILENCE_MS = 10_000;

export class BackgroundWork {
  #timer = null;
  #dependencies;

  /**
   * @param {{silenceMs?: number, isWorking: () => boolean, hasOpenCalls: () => boolean, onStart: () => void, onEnd: () => void}} dependencies
   *   `isWorking`: whether a text or a call is not complete; `onEnd`: called when the work has ended by itself
   */
  constructor(dependencies) {
    this.#dependencies = dependencies;
  }

  get isRunning() {
    return this.#timer !== null;
  }

  /**
   * To be called with each update outside of a turn, after it was translated.
   * @param {any} update
   */
  onUpdate({ _meta }) {
    // Claude Code reports the end of the turn that it has started itself.
    const isEnd = _meta?.['_claude/origin'] !== undefined;
    if (isEnd ? !this.isRunning : !this.#dependencies.isWorking()) return;
    if (isEnd) return this.#end();
    if (!this.isRunning) this.#dependencies.onStart();
    this.#wait();
  }

  /** Ends the work because a turn, an abort or the end of the process takes its place. Returns whether there was work. */
  stop() {
    const { isRunning } = this;
    clearTimeout(this.#timer);
    this.#timer = null;
    return isRunning;
  }

  #wait() {
    clearTimeout(this.#timer);
    const { silenceMs = SILENCE_MS, hasOpenCalls } = this.#dependencies;
    this.#timer = setTimeout(() => (hasOpenCalls() ? this.#wait() : this.#end()), silenceMs);
    this.#timer.unref();
  }

  #end() {
    this.stop();
    this.#dependencies.onEnd();
  }
}
