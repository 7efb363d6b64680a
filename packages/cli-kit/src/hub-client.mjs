/** A client of the hub's REST interface for CLIs, under `/cli`. */

import { UserError } from './errors.mjs';
import { HUB_COMMAND } from './installation.mjs';
import { tokenAdvice } from './token.mjs';

/** An error response of the hub, or no response (`status` 0). */
export class HubError extends UserError {
  constructor(message, { status = 0, code = 'unreachable', reason = message } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    /** A short form of the message, for a log line that already names the hub. */
    this.reason = reason;
  }

  /** Whether a retry can succeed. */
  get isTransient() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  /** Whether the hub itself has answered, and not a proxy, such as the sign-in page of a network. */
  get isOfHub() {
    return this.status > 0 && this.code !== 'http_error' && this.code !== 'not_a_hub';
  }

  /** Whether the hub itself says that the namespace has no such session. A proxy may answer 403 or 404 for a while. */
  get isSessionMissing() {
    return this.code === 'session_not_found' || this.code === 'forbidden';
  }
}

const TIMEOUT_MS = 15_000;

/** The timeout of an import, which is longer because the machine starts the agent first. */
const IMPORT_TIMEOUT_MS = 35_000;

/** What to do when the hub is unreachable. */
export const REACH_ADVICE = `If it is not running, start it with \`${HUB_COMMAND}\`, or name another hub with --hub.`;

/** Messages per page of the history: the hub's limit. */
export const MAX_PAGE_MESSAGES = 200;

export class HubClient {
  /** @param {{hub: string, token?: string}} options `hub` without a trailing slash; `token`: not needed to ask for access */
  constructor({ hub, token }) {
    this.hub = hub;
    this.token = token;
  }

  /** Returns what the hub reports about itself. @returns {Promise<{protocolVersion?: number}>} */
  readHealth() {
    return this.#call('GET', '/health');
  }

  /** Asks for a token of this device. @param {{name: string, kind: string}} body */
  async requestAccess(body) {
    return this.#call('POST', '/api/devices/requests', body);
  }

  /** Exchanges a code that the console shows for a token. @param {{code: string, name: string, kind: string}} body */
  async redeemCode(body) {
    return this.#call('POST', '/api/devices', body);
  }

  /** Revokes a device. @param {string} id */
  async revokeDevice(id) {
    const { token } = await this.signIn();
    await this.#call('DELETE', `/api/devices/${encodeURIComponent(id)}`, undefined, token);
  }

  /** Asks for the decision about a request for access. @param {string} secret of the request */
  async pollAccess(secret) {
    return this.#call('POST', '/api/devices/requests/token', { secret });
  }

  /** Exchanges the access token for a token of web clients. */
  async signIn() {
    return this.#call('POST', '/api/auth', { accessToken: this.token });
  }

  /** Returns the session with a tag. Creates the session if there is none. */
  async openSession(body) {
    return (await this.#call('POST', '/cli/sessions', body)).session;
  }

  async getSession(id) {
    return (await this.#call('GET', `/cli/sessions/${encodeURIComponent(id)}`)).session;
  }

  /** Returns at most `MAX_PAGE_MESSAGES` messages with a seq above `afterSeq`, in ascending order. */
  async readMessagesAfter(id, afterSeq) {
    const path = `/cli/sessions/${encodeURIComponent(id)}/messages?afterSeq=${afterSeq}&limit=${MAX_PAGE_MESSAGES}`;
    return (await this.#call('GET', path)).messages;
  }

  /** Deletes an inactive session. Only web clients may delete sessions, so this method signs in as a web client. */
  async deleteSession(id) {
    const { token } = await this.signIn();
    await this.#call('DELETE', `/api/sessions/${encodeURIComponent(id)}`, undefined, token);
  }

  /** Returns all sessions of the namespace, also the archived ones, as a web client. @returns {Promise<Record<string, any>[]>} */
  async listSessions() {
    const { token } = await this.signIn();
    const sessions = [];
    for (let cursor = ''; cursor !== undefined; ) {
      const query = `archived=include${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
      const page = await this.#call('GET', `/api/sessions?${query}`, undefined, token);
      sessions.push(...page.sessions);
      cursor = page.nextCursor;
    }
    return sessions;
  }

  /** Returns a machine as the hub has it, or null. */
  async findMachine(id) {
    return this.#call('GET', `/cli/machines/${encodeURIComponent(id)}`).then(
      ({ machine }) => machine,
      () => null,
    );
  }

  /** Returns the machine with an id. Creates the machine if there is none. */
  async openMachine(body) {
    return (await this.#call('POST', '/cli/machines', body)).machine;
  }

  /** Lets a machine import a session of one of its agents, as a web client. @returns {Promise<{success: boolean, sessionId?: string, error?: string}>} */
  async importAgentSession(machineId, body) {
    const { token } = await this.signIn();
    return this.#call('POST', `/api/machines/${encodeURIComponent(machineId)}/agent-sessions`, body, token, IMPORT_TIMEOUT_MS);
  }

  async #call(method, path, body, token = this.token, timeoutMs = TIMEOUT_MS) {
    let response;
    let text;
    try {
      response = await fetch(`${this.hub}${path}`, {
        method,
        headers: {
          ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
      });
      text = await response.text();
    } catch (error) {
      const reason = error.cause?.code ?? error.cause?.message ?? error.message;
      throw new HubError(`Cannot reach the hub at ${this.hub} (${reason}). ${REACH_ADVICE}`, { reason });
    }
    let answer = null;
    try {
      answer = JSON.parse(text);
    } catch {
      // Not JSON: reported below with the status.
    }
    if (!response.ok) {
      const reason = String(answer?.error ?? text.slice(0, 200)).replace(/\p{Cc}/gu, ' ');
      const advice = response.status === 404 && !answer?.code ? '. Check the address of the hub.' : '';
      throw new HubError(
        response.status === 401 && this.token !== undefined && answer?.code
          ? `The hub does not accept the token. ${tokenAdvice(this.token)}`
          : `The hub answered ${response.status} to ${method} ${path}: ${reason}${advice}`,
        { status: response.status, code: answer?.code ?? 'http_error', reason: `status ${response.status}` },
      );
    }
    if (answer === null || typeof answer !== 'object') {
      throw new HubError(`The server at ${this.hub} is not a hub: ${method} ${path} did not return a JSON object.`, {
        status: 400,
        code: 'not_a_hub',
        reason: 'an answer that is not JSON',
      });
    }
    return answer;
  }
}

/**
 * Calls the hub, and retries transient failures with exponential backoff.
 * @template T
 * @param {() => Promise<T>} call
 * @param {{retryTimeoutMs: number, retriesProxyErrors?: boolean, onRetry?: (error: HubError) => void}} options `retryTimeoutMs`: no retry begins
 *   after this time; `retriesProxyErrors`: whether to retry after any answer that is not of the hub itself. Without it, the status decides
 * @returns {Promise<T>}
 */
export async function callWithRetry(call, { retryTimeoutMs, retriesProxyErrors = false, onRetry = () => {} }) {
  const deadline = Date.now() + retryTimeoutMs;
  for (let pause = 250; ; pause = Math.min(pause * 2, 4000)) {
    try {
      return await call();
    } catch (error) {
      const mayRetry = error instanceof HubError && (error.isTransient || (retriesProxyErrors && !error.isOfHub));
      if (!mayRetry || Date.now() + pause > deadline) throw error;
      onRetry(error);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}
