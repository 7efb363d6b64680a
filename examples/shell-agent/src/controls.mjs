/** How a session is steered: its modes, who is in control, and the calls that change them or end what the agent does. */

import { freeMode, isValidMode, isValidModel } from './modes.mjs';

/**
 * What a session starts with: what was asked for on the command line, else what the hub has kept of it.
 * @param {Record<string, any>} options as of `startApp`
 * @param {{permissionMode?: string, modelMode?: string}} session as the hub has it
 */
export function initialSettings({ flavor, local, autoApprove, model }, session) {
  const kept = isValidMode(flavor, session.permissionMode) ? session.permissionMode : 'default';
  return {
    mode: local ? 'local' : 'remote',
    permissionMode: autoApprove ? (freeMode(flavor) ?? kept) : kept,
    modelMode: [model, session.modelMode].find((one) => isValidModel(flavor, one)),
    // A kind of agent without a mode for it can still be started so.
    autoApprove: Boolean(autoApprove) && freeMode(flavor) === null,
  };
}

export class Controls {
  /**
   * @param {{flavor: string, settings: ReturnType<typeof initialSettings>, agent: import('./agent.mjs').ShellAgent,
   *   permissions: import('./permissions.mjs').Permissions, agentState: import('./versioned.mjs').Versioned,
   *   metadata: import('./versioned.mjs').Versioned, inBackground: (work: Promise<unknown>) => void,
   *   onChange: () => void, onAborted: () => void, onKill: () => void, log: {info: (text: string) => void}}} parts
   *   `onChange`: the settings have changed; `onAborted`: an `abort` is answered, and the agent is ready again
   */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** Changes settings and tells the hub. */
  apply(changes) {
    Object.assign(this.settings, changes);
    this.onChange();
    this.agent.wake();
  }

  /** Hands control to the terminal (`local`) or to the web (`remote`). */
  switchTo(mode) {
    if (this.settings.mode === mode) return;
    this.apply({ mode });
    this.publish();
    this.log.info(mode === 'local' ? 'The terminal is in control.' : 'The web is in control.');
  }

  /** Shows who is in control: while it is the terminal, the session counts as paused for the web. */
  publish() {
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

  /** The methods for the hub. */
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
    const refuse = (what) => ({ success: false, error: `An agent of kind ${this.flavor} has no ${what}.` });
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
