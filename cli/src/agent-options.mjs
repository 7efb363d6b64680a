/** Sets the options of an agent, and restores the user's choices after each start of the agent. */

import { AgentEndedError } from './acp-process.mjs';
import { describeError } from './acp-session.mjs';
import { toValue } from './options.mjs';

export class AgentOptions {
  #initial;
  #read;
  #save;
  #warn;
  /** Whether the user's choices are set at the agent. From then on, other values are the agent's own changes. */
  #isRestored = false;

  /**
   * @param {{initial?: Record<string, string | boolean>, read: () => Record<string, string | boolean> | undefined,
   *   save: (values: Record<string, string | boolean>) => void, warn: (error: Error) => void}} dependencies `initial`: the values of the
   *   command line; `read` and `save`: the values that are stored with the session; `warn`: reports a refused value
   */
  constructor({ initial = {}, read, save, warn }) {
    this.#initial = initial;
    this.#read = read;
    this.#save = save;
    this.#warn = warn;
  }

  /**
   * Sets an option at the agent, and stores the value with the session.
   * @param {import('./session-config.mjs').SessionConfig} config
   * @param {string} title the name of the agent, for errors
   * @param {{id?: string, value?: unknown}} change
   * @throws {Error} the agent's reason for refusing the value
   */
  async set(config, title, { id, value }) {
    await this.#apply(config, title, id, value);
    const { value: applied } = config.options.find((option) => option.id === id);
    this.#save({ ...this.#stored, [id]: applied });
  }

  /**
   * Sets the stored values at the agent, because agents do not store them. A refused value is reported, and does not fail.
   * @throws {AgentEndedError}
   */
  async restore(config, title) {
    this.#isRestored = false;
    const isNew = this.#read() === undefined;
    const wanted = { ...this.#initial, ...this.#stored };
    for (const [id, value] of Object.entries(wanted)) {
      // In a resumed session, an option may be missing because it exists only for another model.
      if (!isNew && !config.options.some((option) => option.id === id)) continue;
      await this.#apply(config, title, id, value).catch((error) => {
        if (error instanceof AgentEndedError) throw error;
        this.#warn(error);
      });
    }
    if (Object.keys(wanted).length > 0) this.#save(wanted);
    this.#isRestored = true;
    this.storeAgentChanges(config);
  }

  /** Stores the values that the agent has changed itself. To be called when the options of the agent may have changed. */
  storeAgentChanges(config) {
    if (!this.#isRestored) return;
    const changed = config.options.filter(({ id, value }) => Object.hasOwn(this.#stored, id) && this.#stored[id] !== value);
    if (changed.length > 0) this.#save({ ...this.#stored, ...Object.fromEntries(changed.map(({ id, value }) => [id, value])) });
  }

  get #stored() {
    return this.#read() ?? {};
  }

  async #apply(config, title, id, value) {
    const find = () => config.options.find((option) => option.id === id);
    const option = find();
    if (!option) {
      const ids = config.options.map((known) => known.id).join(', ');
      throw new Error(`${title} has no option ${id}. ${ids === '' ? 'It has no options.' : `Its options are: ${ids}.`}`);
    }
    const wanted = toValue(option, value);
    if (wanted === option.value) return;
    await config.setOption(id, wanted).catch((error) => {
      if (error instanceof AgentEndedError) throw error;
      throw new Error(`${title} refused ${option.name}: ${describeError(error)}`);
    });
    if (find()?.value !== wanted) throw new Error(`${title} did not set ${option.name} to ${wanted}: it is ${find()?.value ?? 'gone'}.`);
  }
}
