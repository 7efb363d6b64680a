/** Session settings (permission mode, model, control) and the RPC methods that change them or stop the agent. */

import { autoApproveMode, isValidMode, isValidModel } from './modes.mjs';

/**
 * The settings at the start: from the command line, else those stored with the session at the hub.
 * @param {Record<string, any>} options of `startApp`
 * @param {{permissionMode?: string, modelMode?: string}} session the hub's session
 */
export function initialSettings({ flavor, local, autoApprove, model }, session) {
  const stored = isValidMode(flavor, session.permissionMode) ? session.permissionMode : 'default';
  return {
    mode: local ? 'local' : 'remote',
    permissionMode: autoApprove ? (autoApproveMode(flavor) ?? stored) : stored,
    modelMode: [model, session.modelMode].find((candidate) => isValidModel(flavor, candidate)),
    // `--auto-approve` also works for an agent kind that has no such mode.
    autoApprove: Boolean(autoApprove) && autoApproveMode(flavor) === null,
  };
}

export class Controls {
  /**
   * @param {{flavor: string, settings: ReturnType<typeof initialSettings>, agent: import('./agent.mjs').ShellAgent,
   *   permissions: import('./permissions.mjs').Permissions, agentState: import('./versioned.mjs').Versioned,
   *   metadata: import('./versioned.mjs').Versioned, inBackground: (work: Promise<unknown>) => void,
   *   onChange: () => void, onAborted: () => void, onKill: () => void, log: {info: (text: string) => void}}} parts
   *   `onChange`: reports changed settings to the hub; `onAborted`: called after the answer to `abort` was sent
   */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** Changes settings and reports them to the hub. */
  apply(changes) {
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

  /** Publishes whether the terminal or the web is in control. In local mode, `lifecycleState` is `paused`. */
  publishControl() {
    const controlledByUser = this.settings.mode === 'local';
    const lifecycleState = controlledByUser ? 'paused' : 'running';
    this.inBackground(
      this.agentState.mutate((current) =>
        Boolean(current?.controlledByUser) === controlledByUser ? current : { ...current, controlledByUser },
      ),
    );
    this.inBackground(
      this.metadata.mutate((current) =>
        current?.lifecycleState === lifecycleState
          ? current
          : { ...current, lifecycleState, lifecycleStateSince: Date.now() },
      ),
    );
  }

  /** The RPC methods. */
  methods() {
    return {
      permission: async (params) => {
        const answer = await this.permissions.answer(params);
        if (answer.success && params.decision === 'abort') this.inBackground(this.agent.abort());
        return answer;
      },
      abort: async () => {
        const outcome = await this.agent.abort();
        setImmediate(this.onAborted);
        return { success: true, ...outcome };
      },
      switch: async ({ to = 'remote' }) => {
        if (to !== 'remote' && to !== 'local') return { success: false, error: '"to" must be "remote" or "local".' };
        this.switchTo(to);
        return { success: true, mode: to };
      },
      killSession: async () => {
        this.onKill();
        return { success: true };
      },
      'set-session-config': async (params) => this.#configure(params),
    };
  }

  #configure({ permissionMode, modelMode }) {
    const refuse = (mode) => ({ success: false, error: `An agent of kind ${this.flavor} has no ${mode}.` });
    if (permissionMode !== undefined && !isValidMode(this.flavor, permissionMode)) {
      return refuse(`permission mode ${permissionMode}`);
    }
    if (modelMode !== undefined && !isValidModel(this.flavor, modelMode)) return refuse(`model mode ${modelMode}`);
    const applied = {
      ...(permissionMode === undefined ? {} : { permissionMode }),
      ...(modelMode === undefined ? {} : { modelMode }),
    };
    this.apply(applied);
    return { success: true, applied };
  }
}
