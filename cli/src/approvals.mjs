/**
 * The permission requests and questions of the agent. A request is published in the session's agent state, and is answered when the
 * user has decided. If the user approves a call for the whole session, this process itself answers the later requests that the approval
 * covers, each with "allow once". The process does not answer with the agent's own "always", which may write a permanent rule.
 */

import { APPROVE_EVERYTHING } from 'session-gateway-cli-kit/permissions';

const ACCEPT_EDITS = { kind: 'mode', label: 'Accept edits' };

/**
 * A permission request of the agent, from the translator. `kind`: the kind of the call; `choices`: the approvals that the agent offers;
 * `needsChoice`: whether an approval must be one of `choices`.
 * @typedef {{id: string, tool: string, arguments: any, kind?: string, choices?: import('./translate/permissions.mjs').Choice[],
 *   needsChoice?: boolean}} Request
 * @typedef {ReturnType<typeof import('./translate/translator.mjs').createTranslator>} Translator
 */

export class Approvals {
  /**
   * Whether this process approves every request without asking the user: with `autoApprove`, or if the user has selected a mode that
   * approves everything and the agent has no such mode.
   */
  approvesAll = false;
  /** The open requests: what withdraws a request, and a function that returns whether its call has ended. @type {Map<AbortController, () => boolean>} */
  #open = new Map();

  /**
   * @param {{permissions: import('session-gateway-cli-kit/permissions').Permissions, settings: {permissionMode: string},
   *   send: (records: object[]) => Promise<unknown>, onDenied: (request: object, reason: string) => void,
   *   modeChanges: import('./mode-changes.mjs').ModeChanges}} dependencies `onDenied`: called with the user's reason for a denial, because
   *   the protocol has no field for a reason
   */
  constructor({ permissions, settings, send, onDenied, modeChanges }) {
    this.permissions = permissions;
    this.settings = settings;
    this.send = send;
    this.onDenied = onDenied;
    this.modeChanges = modeChanges;
  }

  /**
   * Answers a request of the agent, for this session or for the session of a sub-agent.
   * @param {Translator} translator
   * @param {{records: object[], request: Request, fullArguments?: object}} translated `fullArguments`: all arguments, if the
   *   arguments of the request are shortened
   * @param {AbortSignal} signal aborted when the agent withdraws the request, or its process ends
   * @param {{isForm?: boolean}} [kind] forms and questions are never answered without the user
   * @returns {Promise<object>} the JSON-RPC result
   */
  async answer(translator, { records, request, fullArguments }, signal, { isForm = false } = {}) {
    const { id, tool, arguments: args, kind = 'other' } = request;
    // Clients show a request together with its call, so the call is stored before the request is published.
    await this.send(records);
    // With `needsChoice`, the agent offers no approval of this call alone, so the user must choose.
    const isQuestion = isForm || Array.isArray(args.questions) || request.needsChoice;
    const scope = isQuestion ? null : this.permissions.scopeOf({ tool, args: fullArguments ?? args, kind });
    const approvedBy = isQuestion ? undefined : await this.#findApproval(scope);
    if (approvedBy) this.permissions.recordApproval(request, approvedBy);
    /** @type {import('./translate/permissions.mjs').Decision} */
    const decision = approvedBy ? { status: 'approved' } : await this.#ask(translator, request, { scope, fullArguments, signal });
    if (decision.status === 'denied' && decision.reason) this.onDenied(request, decision.reason);
    if (kind === 'switch_mode' && decision.status === 'approved') this.modeChanges.expectModeReport();
    const response = translator.responseTo(id, decision);
    this.send(translator.onPermissionResolved(id, decision));
    return response;
  }

  /**
   * To be called with each update, after it was translated.
   * @param {any} update
   * @param {import('session-gateway-cli-kit/shell-changes').ShellChange} [keptByShell] what the shell of a command keeps for the next one
   */
  onUpdate({ sessionUpdate, rawInput, status }, keptByShell) {
    if (sessionUpdate !== 'tool_call' && sessionUpdate !== 'tool_call_update') return;
    if (typeof rawInput?.command === 'string') this.permissions.recordCommand(rawInput.command, keptByShell);
    if (status === 'completed' || status === 'failed') this.cancelClosed();
  }

  /** Cancels the open requests whose call has ended. */
  cancelClosed() {
    for (const [withdrawal, hasEnded] of this.#open) if (hasEnded()) withdrawal.abort('The call has ended');
  }

  /** Returns the rule or the mode that approves a call without asking. */
  async #findApproval(scope) {
    // The agent may have asked before it received a mode that the user has just selected.
    const newMode = await this.modeChanges.waitForChanges();
    if (this.approvesAll) return APPROVE_EVERYTHING;
    return newMode === 'acceptEdits' && scope?.kind === 'edit' ? ACCEPT_EDITS : this.permissions.findRule(scope);
  }

  /**
   * @param {Translator} translator
   * @param {Request} request
   * @param {{scope: import('session-gateway-cli-kit/session-rules').Scope | null, fullArguments?: object, signal: AbortSignal}} options
   * @returns {Promise<import('./translate/permissions.mjs').Decision>}
   */
  async #ask(translator, { id, tool, arguments: args, choices, needsChoice }, { scope, fullArguments, signal: withdrawnByAgent }) {
    if (withdrawnByAgent.aborted || translator.hasEndedCall(id)) return { status: 'canceled' };
    const withdrawal = new AbortController();
    this.#open.set(withdrawal, () => translator.hasEndedCall(id));
    const signal = AbortSignal.any([withdrawnByAgent, withdrawal.signal]);
    const { permissionMode } = this.settings;
    const decision = await this.permissions.ask(tool, args, permissionMode, { id, scope, choices, needsChoice, fullArguments, signal });
    this.#open.delete(withdrawal);
    return decision;
  }
}
