/** What an agent offers for a session: modes, models and options, with their current values. */

import { toOptions } from './options.mjs';
import { asList } from './translate/values.mjs';

/** Limit on the number of modes, and of models, in the session's metadata. The hub accepts 128,000 bytes of each. */
const MAX_CHOICES = 300;
const MAX_DESCRIPTION_CHARS = 200;

export class SessionConfig {
  #send;
  #configOptions = [];
  /** What an agent offers that does not list its modes and models among its options. */
  #legacyModes = null;
  #legacyModels = null;

  /** @param {(method: string, params: object) => Promise<any>} send sends a request for the session, without the session's id */
  constructor(send) {
    this.#send = send;
  }

  /** To be called with the answer that opened the session. */
  onOpened({ configOptions, modes, models } = /** @type {any} */ ({})) {
    this.#configOptions = asList(configOptions);
    this.#legacyModes = Array.isArray(modes?.availableModes) ? modes : null;
    this.#legacyModels = Array.isArray(models?.availableModels) ? models : null;
  }

  /** To be called with each update of the session. */
  onUpdate(update) {
    if (update?.sessionUpdate === 'current_mode_update') this.#setCurrentMode(update.currentModeId);
    if (update?.sessionUpdate === 'config_option_update') this.#configOptions = asList(update.configOptions);
  }

  /** The agent's permission modes. @returns {{id: string, name: string, description?: string}[]} */
  get modes() {
    if (this.#legacyModes) return this.#legacyModes.availableModes.map(toChoice);
    return choicesOf(this.#optionOf('mode')).map(({ value, ...choice }) => toChoice({ ...choice, id: value }));
  }

  get currentMode() {
    return this.#legacyModes?.currentModeId ?? this.#optionOf('mode')?.currentValue;
  }

  /** The agent's models. @returns {{id: string, name: string, description?: string}[]} */
  get models() {
    const option = this.#optionOf('model');
    if (option) return choicesOf(option).map(({ value, ...choice }) => toChoice({ ...choice, id: value }));
    return (this.#legacyModels?.availableModels ?? []).map(({ modelId, ...model }) => toChoice({ ...model, id: modelId }));
  }

  get currentModel() {
    return this.#optionOf('model')?.currentValue ?? this.#legacyModels?.currentModelId;
  }

  /** The agent's options other than its mode and its model. */
  get options() {
    return toOptions(this.#configOptions);
  }

  async setMode(modeId) {
    if (modeId === this.currentMode) return;
    const option = this.#optionOf('mode');
    if (this.#legacyModes || !option) await this.#send('session/set_mode', { modeId });
    else await this.#setOption(option, modeId);
    this.#setCurrentMode(modeId);
  }

  async setModel(modelId) {
    if (modelId === this.currentModel) return;
    const option = this.#optionOf('model');
    if (option) return this.#setOption(option, modelId);
    await this.#send('session/set_model', { modelId });
    if (this.#legacyModels) this.#legacyModels.currentModelId = modelId;
  }

  /**
   * Sets one of {@link options}.
   * @param {string} id
   * @param {string | boolean} value
   */
  async setOption(id, value) {
    await this.#setOption(
      this.#configOptions.find((option) => option?.id === id),
      value,
    );
  }

  async #setOption(option, value) {
    const type = option.type === 'boolean' ? { type: 'boolean' } : {};
    const result = await this.#send('session/set_config_option', { configId: option.id, ...type, value });
    if (Array.isArray(result?.configOptions)) this.#configOptions = result.configOptions;
    else option.currentValue = value;
  }

  #setCurrentMode(modeId) {
    if (this.#legacyModes) this.#legacyModes.currentModeId = modeId;
    const option = this.#optionOf('mode');
    if (option) option.currentValue = modeId;
  }

  #optionOf(category) {
    return this.#configOptions.find((option) => option?.category === category && option.type === 'select');
  }
}

/** Returns the choices of an option. An agent may send the choices in groups. */
const choicesOf = (option) => (option?.options ?? []).flatMap((choice) => choice.options ?? [choice]).slice(0, MAX_CHOICES);

const toChoice = (/** @type {{id: string, name?: string, description?: string}} */ { id, name, description }) => ({
  id,
  name: name ?? id,
  ...(description ? { description: description.slice(0, MAX_DESCRIPTION_CHARS) } : {}),
});
