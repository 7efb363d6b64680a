/**
 * Logs outages of the hub. All connections of this process share one log line for an outage, and one for its end.
 *
 * Event: `restored`, when a connection reaches the hub again. The other connections then reconnect at once.
 */

import { EventEmitter } from 'node:events';
import { REACH_ADVICE, callWithRetry } from './hub-client.mjs';

export class OutageMonitor extends EventEmitter {
  /** Names of the connections that are waiting for the hub. */
  #waiting = new Set();
  #isRefused = false;

  /** @param {{hub: string, log: ReturnType<typeof import('./log.mjs').makeLog>}} options */
  constructor({ hub, log }) {
    super();
    this.hub = hub;
    this.log = log;
  }

  /**
   * @param {string} name of the connection
   * @param {string} reason
   */
  reportLost(name, reason) {
    this.log.debug(`${name}: ${reason}`);
    if (this.#waiting.size === 0) {
      this.log.warn(`Cannot reach the hub at ${this.hub} (${reason}); retrying. ${REACH_ADVICE}`);
    }
    this.#waiting.add(name);
  }

  /**
   * Logs that the hub refuses a token that it accepted before. The connections keep retrying, because the hub's configuration may be
   * wrong only for a while.
   * @param {string} name of the connection
   * @param {string} reason
   * @param {string} advice what to do
   */
  reportRefused(name, reason, advice) {
    this.log.debug(`${name}: ${reason}`);
    this.#waiting.add(name);
    if (this.#isRefused) return;
    this.#isRefused = true;
    this.log.warn(
      `The hub at ${this.hub} no longer accepts the token (${reason}). ${advice} Retrying; unsent messages are kept. Ctrl-C stops.`,
    );
  }

  /** @param {string} name of the connection */
  isWaiting(name) {
    return this.#waiting.has(name);
  }

  /** @param {string} name of the connection */
  reportConnected(name) {
    this.log.debug(`${name}: connected`);
    this.#isRefused = false;
    if (!this.#waiting.delete(name)) return;
    if (this.#waiting.size === 0) this.log.info('Connected to the hub again.');
    this.emit('restored');
  }

  /** Removes a connection that was closed. @param {string} name */
  remove(name) {
    this.#waiting.delete(name);
  }

  /**
   * Calls the hub and retries transient failures.
   * @template T
   * @param {string} name of the caller
   * @param {() => Promise<T>} call
   * @param {number} retryTimeoutMs no retry begins after this time. Without a limit, an answer of a proxy is a transient failure, too: the hub
   *   has answered before
   * @returns {Promise<T>}
   * @throws {import('./hub-client.mjs').HubError}
   */
  async callWithRetry(name, call, retryTimeoutMs) {
    const retriesProxyErrors = retryTimeoutMs === Number.POSITIVE_INFINITY;
    const onRetry = (error) => this.reportLost(name, error.reason);
    const answer = await callWithRetry(call, { retryTimeoutMs, retriesProxyErrors, onRetry });
    this.reportConnected(name);
    return answer;
  }
}
