/** A session's settings: the permission mode, the model, and who is in control. Has the RPC methods for them, and for stopping the agent. */

import { isAskingMode } from './modes.mjs';

export class Controls {
  /**
   * @param {{settings: import('./session.mjs').Settings, agent: import('./session.mjs').Agent,
   *   permissions: import('./permissions.mjs').Permissions, agentState: import('./versioned-value.mjs').VersionedValue,
   *   lifecycle: import('./lifecycle.mjs').Lifecycle, inBackground: (work: Promise<unknown>) => void,
   *   onChange: () => void, onAbortAnswered: () => void, onKill: () => void, log: {info: (text: string) => void}}} dependencies
   *   `onChange`: reports changed settings to the hub; `onAbortAnswered`: called after the answer to `abort` was sent
   */
  constructor({ settings, agent, permissions, agentState, lifecycle, inBackground, onChange, onAbortAnswered, onKill, log }) {
    this.settings = settings;
    this.agent = agent;
    this.permissions = permissions;
    this.agentState = agentState;
    this.lifecycle = lifecycle;
    this.inBackground = inBackground;
    this.onChange = onChange;
    this.onAbortAnswered = onAbortAnswered;
    this.onKill = onKill;
    this.log = log;
  }

  /** Changes settings and reports them to the hub. */
  apply(changes) {
    const { permissionMode } = changes;
    const isNewMode = permissionMode !== undefined && permissionMode !== this.settings.permissionMode;
    if (isNewMode && isAskingMode(permissionMode)) this.permissions.clearRules();
    Object.assign(this.settings, changes);
    this.onChange();
    this.agent.wake();
  }

  /** Hands control to the terminal (`local`) or to the web (`remote`). */
  switchTo(mode) {
    if (this.settings.mode === mode) return;
    this.apply({ mode });
    this.publishControl();
    this.log.info(mode === 'local' ? 'The terminal is in control.' : 'The web is in control.');
  }

  /** Publishes whether the terminal or the web is in control. */
  publishControl() {
    const controlledByUser = this.settings.mode === 'local';
    this.inBackground(
      this.agentState.mutate((current) =>
        Boolean(current?.controlledByUser) === controlledByUser ? current : { ...current, controlledByUser },
      ),
    );
    this.lifecycle.publish();
  }

  /** The RPC methods. */
  methods() {
    return {
      permission: async (params) => {
        const answer = await this.permissions.answer(params);
        if (answer.success && params.decision === 'abort') this.inBackground(this.agent.abort());
        return answer;
      },
      readPermissionRequest: (params) => this.permissions.readContent(params),
      revokeSessionRule: (params) => this.permissions.revokeRule(params),
      abort: async () => {
        const outcome = await this.agent.abort();
        setImmediate(this.onAbortAnswered);
        return { success: true, ...outcome };
      },
      switch: async ({ to = 'remote' }) => {
        if (to !== 'remote' && to !== 'local') return { success: false, error: '"to" must be "remote" or "local".' };
        if (to === 'local' && !this.agent.typeLine) {
          return { success: false, error: 'This agent cannot be controlled from the terminal.' };
        }
        const refusal = to === 'remote' ? (this.agent.refuseRemote?.() ?? null) : null;
        if (refusal !== null) return { success: false, error: refusal };
        this.switchTo(to);
        return { success: true, mode: to };
      },
      killSession: async () => {
        this.onKill();
        return { success: true };
      },
      'set-session-config': async (params) => ({ success: true, applied: await this.configure(params) }),
    };
  }

  /**
   * Changes the permission mode or the model at the agent, and then in the settings.
   * @param {{permissionMode?: string, modelMode?: string}} changes
   * @returns {Promise<object>} the changed settings
   * @throws {Error} the agent's reason for refusing the changes
   */
  async configure({ permissionMode, modelMode }) {
    if (permissionMode === undefined && modelMode === undefined) {
      throw new Error('"permissionMode" or "modelMode" is missing. Other options of an agent are set with set-session-option.');
    }
    const applied = await this.agent.configure({ permissionMode, modelMode });
    if (permissionMode !== undefined && isAskingMode(permissionMode)) this.permissions.clearRules();
    // `--auto-approve` holds until the user chooses a mode.
    this.apply(permissionMode === undefined ? applied : { ...applied, autoApprove: false });
    return applied;
  }
}
