/** Sets the permission mode, the model and the options at the agent, restores them after its start, and publishes them as metadata. */

import { AgentEndedError } from './acp-process.mjs';
import { toAgentMode, toAgentModel, toOfferedModes, toPermissionMode } from './settings.mjs';

export class AgentSettings {
  /** To be set before the first session is opened. @type {import('./launch.mjs').Launch} */
  launch;
  #initialModel;

  /**
   * @param {{settings: import('session-gateway-cli-kit/session').Settings, model?: string, approvals: import('./approvals.mjs').Approvals,
   *   modeChanges: import('./mode-changes.mjs').ModeChanges, agentOptions: import('./agent-options.mjs').AgentOptions,
   *   apply: (changes: object) => void, publish: (fields: object) => void,
   *   onOffer: (offer: {models: object[], options?: object[]}) => void, warn: (error: Error) => void}} dependencies
   *   `model`: the model of the command line; `apply`: records settings that the agent itself has changed;
   *   `publish`: publishes fields of the metadata; `onOffer`: called with what the agent offers; `warn`: reports a refused setting
   */
  constructor({ settings, model, approvals, modeChanges, agentOptions, apply, publish, onOffer, warn }) {
    this.settings = settings;
    this.model = model;
    this.approvals = approvals;
    this.modeChanges = modeChanges;
    this.agentOptions = agentOptions;
    this.apply = apply;
    this.publish = publish;
    this.onOffer = onOffer;
    this.warn = warn;
  }

  /**
   * Sets the mode or the model at the agent. Returns the settings that the agent has confirmed.
   * @param {import('./session-config.mjs').SessionConfig} config
   * @param {{permissionMode?: string, modelMode?: string}} changes
   */
  async configure(config, { permissionMode, modelMode }) {
    const mode = permissionMode === undefined ? null : toAgentMode(permissionMode, this.launch, config.modes);
    const model = modelMode === undefined ? null : toAgentModel(modelMode, this.launch, config.models, this.#initialModel);
    if (mode) await this.modeChanges.run(permissionMode, () => this.#applyMode(config, mode));
    if (model !== null) await config.setModel(model);
    this.publishChoices(config);
    return {
      ...(permissionMode === undefined ? {} : { permissionMode }),
      ...(modelMode === undefined ? {} : { modelMode }),
    };
  }

  /** @param {{id?: string, value?: unknown}} change */
  async setOption(config, change) {
    // Options may appear and disappear with the value of another option.
    await this.agentOptions.set(config, this.launch.title, change).finally(() => this.publishChoices(config));
    return { success: true };
  }

  /**
   * Sets the session's settings at the agent, because agents do not store these settings. A refused setting is reported, and
   * does not fail.
   * @throws {AgentEndedError} the settings are kept for the next start
   */
  async restore(config) {
    this.#initialModel = config.currentModel;
    await this.#restoreMode(config);
    await this.#restoreModel(config);
    await this.agentOptions.restore(config, this.launch.title);
  }

  async #restoreMode(config) {
    const { permissionMode } = this.settings;
    try {
      const mode = toAgentMode(permissionMode, this.launch, config.modes);
      await this.#applyMode(config, mode);
      const keepsAgentMode = mode.modeId === null && !mode.approvesAll && config.currentMode !== undefined;
      if (keepsAgentMode) this.apply({ permissionMode: toPermissionMode(config.currentMode, this.launch.entry) });
      if (this.settings.autoApprove) this.approvals.approvesAll = true;
    } catch (error) {
      if (error instanceof AgentEndedError) throw error;
      this.apply({ permissionMode: toPermissionMode(config.currentMode ?? 'default', this.launch.entry) });
      this.warn(error);
    }
  }

  async #restoreModel(config) {
    const wantedModel = this.settings.modelMode ?? this.model;
    if (wantedModel === undefined) return;
    try {
      const model = toAgentModel(wantedModel, this.launch, config.models, this.#initialModel);
      if (model !== null) await config.setModel(model);
    } catch (error) {
      if (error instanceof AgentEndedError) throw error;
      this.apply({ modelMode: undefined });
      this.warn(error);
    }
  }

  /**
   * To be called when the agent has reported a mode. Before the session is open, the mode is not recorded: the agent does not have the
   * stored mode yet.
   * @param {string} mode the agent's id of the mode
   * @param {{isOpen: boolean}} session
   */
  onModeReport(mode, { isOpen }) {
    this.modeChanges.onModeReport();
    if (isOpen && !this.approvals.approvesAll) this.apply({ permissionMode: toPermissionMode(mode, this.launch.entry) });
  }

  publishChoices(config) {
    const { modes, models, currentModel, options } = config;
    const offer = { modes: toOfferedModes(modes, this.launch.entry), models, options: options.length === 0 ? undefined : options };
    this.publish({ ...offer, ...(currentModel === undefined ? {} : { currentModel }) });
    this.onOffer(offer);
    this.agentOptions.storeAgentChanges(config);
  }

  async #applyMode(config, { modeId, approvesAll }) {
    if (modeId !== null) await config.setMode(modeId);
    this.approvals.approvesAll = approvesAll;
  }
}
