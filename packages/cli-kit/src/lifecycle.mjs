/**
 * The lifecycle state that a session publishes in its metadata: the first of these states that applies.
 * - `paused`: the terminal is in control
 * - `failed`: the agent cannot be started, for the reason in `agentError`
 * - `running`: the session has messages
 * - `initializing`
 */

const MAX_ERROR_CHARS = 1000;

export class Lifecycle {
  #hasMessages;
  /** @type {string | undefined} */
  #error;
  #publish;

  /**
   * @param {{hasMessages: boolean, settings: {mode: 'local' | 'remote'}, publish: (fields: object) => void}} dependencies
   *   `publish`: changes fields of the metadata
   */
  constructor({ hasMessages, settings, publish }) {
    this.#hasMessages = hasMessages;
    this.settings = settings;
    this.#publish = publish;
  }

  get hasMessages() {
    return this.#hasMessages;
  }

  /** The metadata fields of the lifecycle. */
  get fields() {
    return { lifecycleState: this.#state, lifecycleStateSince: Date.now(), agentError: this.#error };
  }

  get #state() {
    if (this.settings.mode === 'local') return 'paused';
    if (this.#error !== undefined) return 'failed';
    return this.#hasMessages ? 'running' : 'initializing';
  }

  /** Publishes the state. To be called when `settings.mode` has changed. */
  publish() {
    this.#publish(this.fields);
  }

  /** To be called with each message of the session. */
  onMessage() {
    if (this.#hasMessages) return;
    this.#hasMessages = true;
    this.publish();
  }

  /** @param {string | null} error why the agent cannot be started; null when it has started */
  setAgentError(error) {
    const next = error?.slice(0, MAX_ERROR_CHARS).toWellFormed();
    if (next === this.#error) return;
    this.#error = next;
    this.publish();
  }
}
