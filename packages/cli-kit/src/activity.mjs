/** What an agent is doing, such as the command or the file of the tool call that runs. Keep-alives report it to the hub. */

/** Limit on the length of an activity. The hub cuts off the rest. */
const MAX_CHARS = 200;

/** The shortest time between two reports of a change. */
const REPORT_INTERVAL_MS = 2000;

/** The fields of a call's input that say what the call does, most telling first. */
const SUMMARY_FIELDS = ['command', 'cmd', 'file_path', 'path', 'pattern', 'query', 'url', 'description'];

/**
 * Returns what a tool call does, in one line: its command, its file, or the name of the tool.
 * @param {{name?: string, input?: any}} call
 */
export function describeCall({ name, input }) {
  const values = SUMMARY_FIELDS.map((field) => input?.[field]).map((value) => (Array.isArray(value) ? value.join(' ') : value));
  const text = [...values, name].find((value) => typeof value === 'string' && value.trim() !== '') ?? '';
  const line = text.trim().split(/[\r\n]/, 1)[0];
  return [...line].slice(0, MAX_CHARS).join('').toWellFormed();
}

/** Reports each change of the activity: immediately, but not more than once in two seconds. */
export class Activity {
  /** The current activity; null if none is known. @type {string | null} */
  current = null;
  #reported = null;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #timer = null;
  #report;

  /** @param {() => void} report sends a keep-alive with the current activity */
  constructor(report) {
    this.#report = report;
  }

  /** @param {string | null} activity */
  set(activity) {
    this.current = activity;
    if (activity === this.#reported) return this.stop();
    const delayMs = Math.max(0, this.#reportedAt + REPORT_INTERVAL_MS - performance.now());
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#report();
    }, delayMs).unref();
  }

  /** To be called when a keep-alive is sent. Returns the activity for the keep-alive. */
  take() {
    this.stop();
    if (this.#reported !== this.current) this.#reportedAt = performance.now();
    this.#reported = this.current;
    return this.current;
  }

  /** Cancels the next report. */
  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }
}
