/** Sets the permission mode and the model at the agent, restores them after its start, and publishes them as metadata. */

import { toAgentMode, toAgentModel, toOfferedModes, toPermissionMode } from './settings.mjs';

export class AgentSettings {
  /** To be set before the first session is opened. @type {import('./launch.mjs').Launch} */
  launch;
  #initialModel;

  /**
   * @param {{settings: import('session-gateway-cli-kit/session').Settings, model?: string, approvals: import('./approvals.mjs').Approvals,
   *   modeChanges: import('./mode-changes.mjs').ModeChanges, apply: (changes: object) => void, publish: (fields: object) => void,
   *   warn: (error: Error) => void}} parts `model`: the model of the command line; `apply`: records settings that the agent itself
   *   has changed; `publish`: publishes fields of the metadata; `warn`: reports a refused setting
   */
  constructor({ settings, model, approvals, modeChanges, apply, publish, warn }) {
    this.settings = settings;
    this.model = model;
    this.approvals = approvals;
    this.modeChanges = modeChanges;
    this.apply = apply;
    this.publish = publish;
    this.warn = warn;
  }

  /**
   * Sets the mode or the model at the agent. Returns the settings that the agent has confirmed.
   * @param {import('./acp-session.mjs').AcpSession} session
   * @param {{permissionMode?: string, modelMode?: string}} changes
   */
  async configure(session, { permissionMode, modelMode }) {
    const mode = permissionMode === undefined ? null : toAgentMode(permissionMode, this.launch, session.modes);
    const model = modelMode === undefined ? null : toAgentModel(modelMode, this.launch, session.models, this.#initialModel);
    if (mode) await this.modeChanges.run(permissionMode, () => this.#applyMode(session, mode));
    if (model !== null) await session.setModel(model);
    this.publishChoices(session);
    return {
      ...(permissionMode === undefined ? {} : { permissionMode }),
      ...(modelMode === undefined ? {} : { modelMode }),
    };
  }

  /** Sets the session's mode and model at the agent, because agents do not store these settings. Only reports a refused setting. */
  async restore(session) {
    this.#initialModel = session.currentModel;
    const { permissionMode, modelMode } = this.settings;
    const wantedModel = modelMode ?? this.model;
    try {
      const mode = toAgentMode(permissionMode, this.launch, session.modes);
      await this.#applyMode(session, mode);
      const isUnnamed = mode.modeId === null && !mode.approvesAll && session.currentMode !== undefined;
      if (isUnnamed) this.apply({ permissionMode: toPermissionMode(session.currentMode, this.launch.entry) });
      if (this.settings.autoApprove) this.approvals.approvesAll = true;
    } catch (error) {
      this.apply({ permissionMode: toPermissionMode(session.currentMode ?? 'default', this.launch.entry) });
      this.warn(error);
    }
    if (wantedModel === undefined) return;
    try {
      const model = toAgentModel(wantedModel, this.launch, session.models, this.#initialModel);
      if (model !== null) await session.setModel(model);
    } catch (error) {
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

  publishChoices({ modes, models, currentModel }) {
    this.publish({ modes: toOfferedModes(modes, this.launch.entry), models, ...(currentModel === undefined ? {} : { currentModel }) });
  }

  async #applyMode(session, { modeId, approvesAll }) {
    if (modeId !== null) await session.setMode(modeId);
    this.approvals.approvesAll = approvesAll;
  }
}
