/** The hub's REST interface for command-line processes, under `/cli`. */

import { TOKEN_ADVICE } from './token.mjs';

/** An answer of the hub that is not a success, or no answer at all (`status` 0). */
export class HubError extends Error {
  constructor(message, { status = 0, code = 'unreachable', reason = message } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    /** The message in short. */
    this.reason = reason;
  }

  /** True when trying again later may help. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

const TIMEOUT_MS = 15_000;

/** Messages a page when catching up; the most the hub allows. */
export const PAGE = 200;

export class HubClient {
  /** @param {{hub: string, token: string}} options `hub` without a trailing slash */
  constructor({ hub, token }) {
    this.hub = hub;
    this.token = token;
  }

  /** The session of this tag, made when there is none. */
  async openSession(body) {
    return (await this.#call('POST', '/cli/sessions', body)).session;
  }

  async getSession(id) {
    return (await this.#call('GET', `/cli/sessions/${encodeURIComponent(id)}`)).session;
  }

  /** At most `PAGE` messages above `afterSeq`, lowest first. */
  async messagesAfter(id, afterSeq) {
    const path = `/cli/sessions/${encodeURIComponent(id)}/messages?afterSeq=${afterSeq}&limit=${PAGE}`;
    return (await this.#call('GET', path)).messages;
  }

  async openMachine(body) {
    return (await this.#call('POST', '/cli/machines', body)).machine;
  }

  async #call(method, path, body) {
    let response;
    let text;
    try {
      response = await fetch(`${this.hub}${path}`, {
        method,
        headers: {
          Authorization: `Bearer ${this.token}`,
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await response.text();
    } catch (error) {
      const reason = error.cause?.code ?? error.cause?.message ?? error.message;
      throw new HubError(`Cannot reach the hub at ${this.hub} (${reason}).`, { reason });
    }
    let answer = null;
    try {
      answer = JSON.parse(text);
    } catch {
      // Not JSON: the status below says enough.
    }
    if (!response.ok) {
      throw new HubError(
        response.status === 401
          ? `The hub does not accept the token. ${TOKEN_ADVICE}`
          : `The hub answered ${response.status} to ${method} ${path}: ${answer?.error ?? text.slice(0, 200)}`,
        { status: response.status, code: answer?.code ?? 'http_error', reason: `it answers ${response.status}` },
      );
    }
    if (answer === null || typeof answer !== 'object') {
      throw new HubError(`What answers at ${this.hub} is not a hub: ${method} ${path} gave no JSON object.`, {
        status: 400,
        code: 'not_a_hub',
      });
    }
    return answer;
  }
}

/**
 * Calls until the hub answers, as long as the failure is one that may pass.
 * @template T
 * @param {() => Promise<T>} call
 * @param {{forMs: number, onRetry?: (error: HubError) => void}} options
 * @returns {Promise<T>}
 */
export async function withPatience(call, { forMs, onRetry = () => {} }) {
  const until = Date.now() + forMs;
  for (let pause = 250; ; pause = Math.min(pause * 2, 4000)) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof HubError) || !error.passing || Date.now() + pause > until) throw error;
      onRetry(error);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}
