/**
 * Permission requests, through the session's agent state: a request is put there for the web to see, a person's answer
 * comes back as the call `permission`, and the request then moves to `completedRequests`.
 */

import { randomUUID } from 'node:crypto';

/** How long the answer to `permission` waits for the hub to take the new agent state. */
const STATE_MS = 3000;

/**
 * `id`: the request. Its call goes under this id, too, whether it was allowed or not, so that clients find the two together.
 *
 * @typedef {{status: 'approved' | 'denied' | 'canceled', id: string, decision?: string, reason?: string}} Outcome
 */

export class Permissions {
  #pending = new Map();
  #allowed = new Set();
  #closed = false;

  /**
   * @param {{state: import('./versioned.mjs').Versioned, onMode?: (mode: string) => void,
   *   log: {warn: (text: string) => void}, now?: () => number}} options `onMode`: an answer named a mode for what follows
   */
  constructor({ state, onMode = () => {}, log, now = Date.now }) {
    this.state = state;
    this.onMode = onMode;
    this.log = log;
    this.now = now;
    state.onAdopt = (value) => this.#reconcile(value);
  }

  /** True when a person has approved this tool for the rest of the session. */
  isAllowed(tool) {
    return this.#allowed.has(tool);
  }

  /**
   * Asks for permission and waits for the answer.
   * @param {string} tool
   * @param {object} args what it would do
   * @param {string} mode the permission mode at this time
   * @returns {Promise<Outcome>}
   */
  ask(tool, args, mode) {
    return new Promise((resolve) => this.#open({ tool, args, mode, resolve }));
  }

  /**
   * The call `permission`.
   * @param {{id?: string, approved?: boolean, decision?: string, mode?: string, allowTools?: string[], answers?: object,
   *   reason?: string}} answer
   */
  async answer({ id, approved, decision, mode, allowTools, answers, reason } = {}) {
    const request = this.#pending.get(id);
    if (!request) return { success: false, error: `There is no pending permission request ${id}.` };
    this.#pending.delete(id);
    const yes = approved === true && decision !== 'denied' && decision !== 'abort';
    const outcome = {
      status: yes ? 'approved' : 'denied',
      decision: decision ?? (yes ? 'approved' : 'denied'),
      ...(reason === undefined ? {} : { reason }),
    };
    if (yes) {
      if (decision === 'approved_for_session') this.#allowed.add(request.tool);
      if (Array.isArray(allowTools)) for (const tool of allowTools) this.#allowed.add(tool);
      if (typeof mode === 'string') this.onMode(mode);
    }
    await this.#close(id, request, {
      ...outcome,
      mode: mode ?? request.mode,
      ...(allowTools === undefined ? {} : { allowTools }),
      ...(answers === undefined ? {} : { answers }),
    });
    request.resolve({ ...outcome, id });
    return { success: true };
  }

  /** Cancels what is pending: the task it belongs to was aborted. */
  async cancelAll(reason) {
    const all = [...this.#pending];
    this.#pending.clear();
    await Promise.all(
      all.map(async ([id, request]) => {
        await this.#close(id, request, { status: 'canceled', reason });
        request.resolve({ status: 'canceled', id });
      }),
    );
  }

  /** The session is about to end: what the hub cancels then is not asked again. */
  close() {
    this.#closed = true;
  }

  /** Cancels requests that an earlier process of this session left behind. */
  async cancelStale() {
    const completedAt = this.now();
    await this.state.mutate((current) => {
      const stale = Object.entries(current?.requests ?? {}).filter(([id]) => !this.#pending.has(id));
      if (stale.length === 0) return current;
      let next = current;
      for (const [id] of stale)
        next = move(next, id, { status: 'canceled', completedAt, reason: 'The agent was restarted' });
      return next;
    });
  }

  #open(request) {
    const id = randomUUID();
    this.#pending.set(id, request);
    const entry = { tool: request.tool, arguments: request.args, createdAt: this.now() };
    this.state
      .mutate((current) => {
        // Answered or canceled while this waited for its turn: do not bring it back.
        if (!this.#pending.has(id) || current?.requests?.[id] || current?.completedRequests?.[id]) return current;
        return { ...current, requests: { ...current?.requests, [id]: entry } };
      })
      .catch((error) => {
        if (this.#pending.delete(id)) request.resolve({ status: 'canceled', id });
        this.log.warn(`cannot ask for permission: ${error.message}`);
      });
  }

  /** Moves a request in the agent state. The answer does not hang on it when the hub is slow to take it. */
  async #close(id, request, outcome) {
    const completedAt = this.now();
    const entry = { tool: request.tool, arguments: request.args };
    const moved = this.state
      .mutate((current) => move(current, id, { completedAt, ...outcome }, entry))
      .catch((error) => this.log.warn(`cannot store the outcome of a permission request: ${error.message}`));
    let timer;
    await Promise.race([
      moved,
      new Promise((resolve) => {
        timer = setTimeout(resolve, STATE_MS);
      }),
    ]);
    clearTimeout(timer);
  }

  /**
   * The hub may settle a request itself: it cancels those of a session whose connection was lost for long. The person
   * has not answered then, so the question is put again.
   */
  #reconcile(value) {
    if (this.#closed) return;
    for (const [id, request] of this.#pending) {
      const done = value?.completedRequests?.[id];
      if (!done) continue;
      this.#pending.delete(id);
      if (done.status === 'canceled') this.#open(request);
      else request.resolve({ status: done.status, id, decision: done.decision, reason: done.reason });
    }
  }
}

/**
 * Moves one request to `completedRequests`, unless somebody already did.
 * @param {any} state
 * @param {string} id
 * @param {object} outcome
 * @param {object} [fallback] the request, should the state not have it (yet)
 */
function move(state, id, outcome, fallback) {
  if (state?.completedRequests?.[id] && !state.requests?.[id]) return state;
  const { [id]: found, ...requests } = state?.requests ?? {};
  const request = found ?? fallback;
  return { ...state, requests, completedRequests: { ...state?.completedRequests, [id]: { ...request, ...outcome } } };
}
