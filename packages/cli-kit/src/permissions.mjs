/**
 * Permission requests, in the session's agent state:
 * 1. A new request is added to `requests`, which web clients show.
 * 2. The answer arrives as the RPC `permission`.
 * 3. The request moves to `completedRequests`.
 *
 * An approval for the session creates a rule, which the agent state lists in `sessionRules`.
 */

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { RequestContent } from './request-content.mjs';
import { SessionRules, scopeOf } from './session-rules.mjs';
import { shellChangeOf } from './shell-changes.mjs';

/** Limit on the completed requests in an update of the agent state. The hub keeps the completed requests that an update omits. */
const MAX_SENT_COMPLETED = 100;

/** The value of `approvedBy` for a call in a mode that never asks the user. */
export const APPROVE_EVERYTHING = { kind: 'mode', label: 'Approve everything' };

/** Limit on how long the answer to `permission` waits for the hub to store the new agent state. */
const STATE_TIMEOUT_MS = 3000;

/**
 * `id`: the request's id. The tool call has the same id, so that clients show the request with its call.
 *
 * @typedef {{status: 'approved' | 'denied' | 'canceled', id: string, decision?: string, reason?: string,
 *   answers?: Record<string, string[] | {answers: string[]}>}} Outcome
 *
 * An approval that the agent offers. If the user chooses this approval, `answers.choice` of the answer is its id.
 * @typedef {{id: string, label: string, neverAsks?: boolean}} Choice
 */

export class Permissions {
  #pending = new Map();
  #rules = new SessionRules();
  #isClosed = false;
  /** The ids of completed requests that updates omit. */
  #omittedIds = new Set();
  /** @type {import('./session-rules.mjs').RulePlace} */
  #place;

  /**
   * @param {{state: import('./versioned-value.mjs').VersionedValue, root: string, protectedNames?: ReadonlySet<string>,
   *   onMode?: (mode: string) => void, log: {warn: (text: string) => void}, now?: () => number}} options `root`: the session's directory,
   *   resolved; `protectedNames`: see {@link import('./rule-paths.mjs').Place}; `onMode`: called with the new permission mode that an answer
   *   selects
   */
  constructor({ state, root, protectedNames = new Set(), onMode = () => {}, log, now = Date.now }) {
    this.state = state;
    this.#place = { root, protectedNames, shell: 'nothing', moves: 0 };
    this.onMode = onMode;
    this.log = log;
    this.now = now;
    state.onAdopt = (value) => this.#reconcile(value);
  }

  /** The ids of all pending and completed requests of the session. */
  get requestIds() {
    const { requests, completedRequests } = this.state.value ?? {};
    return [...this.#omittedIds, ...Object.keys({ ...requests, ...completedRequests })];
  }

  /** Returns the scope that an approval of a call for the session would cover. @param {import('./session-rules.mjs').ToolCall} call */
  scopeOf(call) {
    return scopeOf(call, this.#place);
  }

  /**
   * To be called with each command that the agent runs. In a changed shell, a rule covers only exactly the approved
   * commands, until the directory changes again.
   * @param {string} command
   * @param {import('./shell-changes.mjs').ShellChange} [kept] what the agent's shell keeps for the next command
   */
  recordCommand(command, kept = 'variables') {
    const change = shellChangeOf(command, this.#place.root, kept);
    if (change === 'nothing') return;
    const { shell, moves } = this.#place;
    this.#place = { ...this.#place, shell: shell === 'variables' ? shell : change, moves: change === 'directory' ? moves + 1 : moves };
  }

  /** Returns what covers a call, for `recordApproval`. @param {import('./session-rules.mjs').Scope | null} scope of the call */
  findRule(scope) {
    return this.#rules.find(scope);
  }

  /**
   * Asks for permission and waits for the answer.
   * @param {string} tool
   * @param {object} args the tool's arguments
   * @param {string} mode the current permission mode
   * @param {{id?: string, scope?: import('./session-rules.mjs').Scope | null, choices?: Choice[], needsChoice?: boolean,
   *   fullArguments?: object, signal?: AbortSignal}} [options]
   *   - `id`: the id of the request, by default a random id
   *   - `scope`: what an approval for the session covers, by default nothing
   *   - `choices`: the agent's own approvals; `needsChoice`: whether an approval must be one of `choices`
   *   - `fullArguments`: all arguments, if `args` are shortened
   *   - `signal`: withdraws the request; the signal's reason is shown if it is a text
   * @returns {Promise<Outcome>}
   */
  ask(tool, args, mode, { id, scope = null, choices, needsChoice, fullArguments, signal } = {}) {
    return new Promise((resolve) => {
      const fullContent = fullArguments === undefined ? undefined : new RequestContent(JSON.stringify(fullArguments));
      const request = { tool, args, mode, scope, choices, needsChoice, fullContent, wantedId: id, resolve };
      this.#publish(request);
      const reason = () => (typeof signal.reason === 'string' ? signal.reason : 'Withdrawn by the agent');
      signal?.addEventListener('abort', () => this.#cancel(request, reason()), { once: true });
    });
  }

  /**
   * The RPC `permission`.
   * @param {{id?: string, approved?: boolean, decision?: string, mode?: string, allowTools?: string[], answers?: object,
   *   reason?: string}} answer
   */
  async answer({ id, approved, decision, mode, allowTools, answers, reason } = {}) {
    const request = this.#pending.get(id);
    if (!request) return { success: false, error: `There is no pending permission request ${id}.` };
    const isApproved = approved === true && decision !== 'denied' && decision !== 'abort';
    const { proof, ...otherAnswers } = answers ?? {};
    const refusal = isApproved && (request.fullContent?.checkProof(proof) ?? checkChoice(request, answers));
    if (refusal) return { success: false, error: refusal };
    const storedAnswers = request.fullContent ? otherAnswers : answers;
    this.#pending.delete(id);
    const effectiveDecision = isApproved ? this.#addRules(request, { decision, allowTools }) : decision;
    const outcome = {
      status: isApproved ? 'approved' : 'denied',
      decision: effectiveDecision ?? (isApproved ? 'approved' : 'denied'),
      ...(reason === undefined ? {} : { reason }),
      ...(storedAnswers === undefined || (request.fullContent && Object.keys(storedAnswers).length === 0)
        ? {}
        : { answers: storedAnswers }),
    };
    await this.#complete(id, request, {
      ...outcome,
      mode: mode ?? request.mode,
      ...(allowTools === undefined ? {} : { allowTools }),
    });
    request.resolve({ ...outcome, id });
    // Sets the mode after the agent has received the answer, because an approval may make the agent change the mode itself.
    if (isApproved && typeof mode === 'string') setImmediate(() => this.onMode(mode));
    return { success: true };
  }

  /**
   * The RPC `readPermissionRequest`.
   * @param {{id?: string, part?: unknown}} params
   * @returns {{success: boolean, error?: string, text?: string, parts?: number, proof?: string}}
   */
  readContent({ id, part } = {}) {
    const { fullContent } = this.#pending.get(id) ?? {};
    return fullContent ? fullContent.read(part) : { success: false, error: 'No shortened permission request with this id is pending.' };
  }

  /**
   * Records that a call was approved without asking, so that clients show it like an answered request.
   * @param {{id: string, tool: string}} call
   * @param {{kind: string, label: string}} approvedBy the rule or the mode that approved the call, with a label for people
   */
  recordApproval({ id, tool }, { kind, label }) {
    const now = this.now();
    const completedRequest = {
      tool,
      createdAt: now,
      completedAt: now,
      status: 'approved',
      decision: 'approved',
      approvedBy: { kind, label },
    };
    this.#logFailure(this.state.mutate((current) => this.#withNewestCompleted(completeRequest(current, id, completedRequest), id)));
  }

  /** The RPC `revokeSessionRule`. @param {{id?: string}} params */
  async revokeRule({ id } = {}) {
    if (!this.#rules.remove(id)) return { success: false, error: 'There is no such rule. It may have been withdrawn already.' };
    await this.#waitUntilStored(this.state.mutate((current) => this.#withRules(current)));
    return { success: true };
  }

  /** To be called when the agent's process has ended: its shell has ended, too. */
  forgetShell() {
    this.#place = { ...this.#place, shell: 'nothing' };
  }

  /** Removes all rules, so that the user is asked again. */
  clearRules() {
    if (this.#rules.isEmpty) return;
    this.#rules.clear();
    this.#logFailure(this.state.mutate((current) => this.#withRules(current)));
  }

  /** Cancels all pending requests. */
  async cancelAll(reason) {
    await Promise.all([...this.#pending.values()].map((request) => this.#cancel(request, reason)));
  }

  async #cancel(request, reason) {
    const { id } = request;
    if (this.#pending.get(id) !== request) return;
    this.#pending.delete(id);
    await this.#complete(id, request, { status: 'canceled', reason });
    request.resolve({ status: 'canceled', id });
  }

  /** To be called before the session ends, so that requests that the hub cancels later are not published again. */
  close() {
    this.#isClosed = true;
  }

  /** Cancels the requests of an earlier process of this session, and removes its rules. */
  async cancelStale() {
    const completedAt = this.now();
    await this.state.mutate((current) => {
      const stale = Object.entries(current?.requests ?? {}).filter(([id]) => !this.#pending.has(id));
      let state = this.#withRules(current);
      for (const [id] of stale) state = completeRequest(state, id, { status: 'canceled', completedAt, reason: 'The agent was restarted' });
      return state;
    });
  }

  #publish(request) {
    const id = this.#newId(request.wantedId);
    request.id = id;
    this.#pending.set(id, request);
    const { tool, args, scope, choices, needsChoice, fullContent } = request;
    const sessionRule = scope && { kind: scope.kind, label: scope.label };
    const publishedRequest = {
      tool,
      arguments: args,
      createdAt: this.now(),
      sessionRule,
      ...(choices && { choices }),
      ...(needsChoice && { needsChoice }),
      ...(fullContent && { shortened: fullContent.size }),
    };
    this.state
      .mutate((current) => {
        // The request was answered or canceled before this update ran, or the hub already has the request.
        if (!this.#pending.has(id) || current?.requests?.[id] || current?.completedRequests?.[id]) return current;
        return { ...current, requests: { ...current?.requests, [id]: publishedRequest } };
      })
      .catch((error) => {
        if (this.#pending.delete(id)) request.resolve({ status: 'canceled', id });
        this.log.warn(`cannot publish a permission request: ${error.message}`);
      });
  }

  /** Returns the wanted id. If an earlier request had this id, adds a number at its end. */
  #newId(wanted) {
    if (wanted === undefined) return randomUUID();
    const usedIds = new Set([...this.requestIds, ...this.#pending.keys()]);
    let id = wanted;
    for (let number = 2; usedIds.has(id); number += 1) id = `${wanted}#${number}`;
    return id;
  }

  /** Returns the agent state with the current rules. */
  #withRules(state) {
    const sessionRules = this.#rules.published;
    return isDeepStrictEqual(state?.sessionRules ?? [], sessionRules) ? state : { ...state, sessionRules };
  }

  /** Returns the agent state with only the newest completed requests. `lastId`: the id of the request that was completed last. */
  #withNewestCompleted(state, lastId) {
    const completed = Object.entries(state?.completedRequests ?? {});
    if (completed.length <= MAX_SENT_COMPLETED) return state;
    // The fields of an object are not in the order of completion, because ids that are numbers come first.
    const timeOf = ([id, entry]) => (id === lastId ? Number.MAX_VALUE : (entry?.completedAt ?? 0));
    completed.sort((a, b) => timeOf(a) - timeOf(b));
    for (const [id] of completed.slice(0, -MAX_SENT_COMPLETED)) this.#omittedIds.add(id);
    return { ...state, completedRequests: Object.fromEntries(completed.slice(-MAX_SENT_COMPLETED)) };
  }

  /**
   * Adds the rules of an approval.
   * @returns {string | undefined} the decision: `approved` instead of `approved_for_session` if no rule can cover later calls
   */
  #addRules({ tool, scope }, { decision, allowTools = [] }) {
    const isForSession = decision === 'approved_for_session';
    const names = Array.isArray(allowTools) ? allowTools : [];
    if (scope && (isForSession || names.includes(tool))) this.#rules.add(scope);
    for (const name of names) if (name !== tool) this.#rules.addTool(name);
    return isForSession && !scope ? 'approved' : decision;
  }

  /** Moves a request to `completedRequests`. Waits a limited time for the hub to store the change. */
  async #complete(id, request, outcome) {
    const completedAt = this.now();
    const entry = { tool: request.tool, arguments: request.args };
    await this.#waitUntilStored(
      this.state.mutate((current) =>
        this.#withNewestCompleted(completeRequest(this.#withRules(current), id, { completedAt, ...outcome }, entry), id),
      ),
    );
  }

  #logFailure(change) {
    return change.catch((error) => this.log.warn(`cannot store a change of the permissions: ${error.message}`));
  }

  /** Waits a limited time until the hub has stored a change. */
  async #waitUntilStored(change) {
    let timer;
    await Promise.race([
      this.#logFailure(change),
      new Promise((resolve) => {
        timer = setTimeout(resolve, STATE_TIMEOUT_MS);
      }),
    ]);
    clearTimeout(timer);
  }

  /**
   * Resolves the requests that the hub has completed. Canceled requests are published again: the hub cancels the requests of a session
   * that was disconnected for a long time, although the user has not answered.
   */
  #reconcile(value) {
    if (this.#isClosed) return;
    for (const [id, request] of this.#pending) {
      const completed = value?.completedRequests?.[id];
      if (!completed) continue;
      this.#pending.delete(id);
      if (completed.status === 'canceled') this.#publish(request);
      else {
        const { status, decision, reason, answers } = completed;
        request.resolve({ status, id, decision, reason, answers });
      }
    }
  }
}

/** Returns why an approval does not match the choices that the agent offers; null for a valid approval. */
function checkChoice({ choices = [], needsChoice }, answers) {
  const given = answers?.choice?.answers ?? answers?.choice;
  const isOffered = Array.isArray(given) && choices.some(({ id }) => id === given[0]);
  if (needsChoice && !isOffered) return 'The agent offers no approval of this call alone. Choose one of its own approvals.';
  return choices.length > 0 && given !== undefined && !isOffered ? 'The agent does not offer this choice.' : null;
}

/**
 * Moves one request to `completedRequests`, unless the request is already completed.
 * @param {any} state
 * @param {string} id
 * @param {object} outcome
 * @param {object} [fallback] the request, if the state may not contain the request
 */
function completeRequest(state, id, outcome, fallback) {
  if (state?.completedRequests?.[id] && !state.requests?.[id]) return state;
  const { [id]: found, ...requests } = state?.requests ?? {};
  const request = found ?? fallback;
  return { ...state, requests, completedRequests: { ...state?.completedRequests, [id]: { ...request, ...outcome } } };
}
