/**
 * A Socket.IO client of the hub's `/cli` namespace. The client reconnects whenever the connection is lost.
 *
 * Events:
 * - `connect`: on every connection
 * - `disconnect`
 * - `update`, with the body of the update
 * - `closed`, with a `RefusedError`: the hub has refused this client permanently
 * - `ended`: `close` was called, and the socket will not reconnect
 */

import { EventEmitter } from 'node:events';
import { io } from 'socket.io-client';
import { Backoff } from './backoff.mjs';
import { isDeviceToken, tokenAdvice } from './token.mjs';

/** The hub refused the connection or the session permanently. */
export class RefusedError extends Error {
  /** Whether the hub refused the token. */
  isTokenRefused = false;
}

/** Matches CONNECT_ERROR messages about the token. An immediate retry cannot succeed then. */
const TOKEN_REFUSED = /invalid (token|namespace)|namespace/i;

/** Factor on the reconnect delay after the hub refused the token, or the session because another installation serves it. */
const REFUSED_DELAY_FACTOR = 20;

/** The longest pause before a new attempt while another installation serves the session. */
const MAX_ELSEWHERE_PAUSE_MS = 60_000;

/**
 * How long to wait for an acknowledgement before the connection is replaced. The limit doubles with each replacement, because the hub may
 * be slow rather than unreachable.
 */
const ACK_TIMEOUT_MS = 8000;
const MAX_ACK_TIMEOUT_MS = 60_000;

export class HubSocket extends EventEmitter {
  #socket;
  #isClosed = false;
  #wasAccepted = false;
  #retryTimer = null;
  /** The last warning on this connection. */
  #lastWarning = '';
  #isReplacing = false;
  #isServedElsewhere = false;
  #elsewhereBackoff;

  /**
   * @param {{hub: string, token: string, bridged?: boolean,
   *   auth: {clientType: string, sessionId?: string, machineId?: string, installationId?: string, features?: string[]},
   *   log: ReturnType<typeof import('./log.mjs').makeLog>, outage: import('./outage.mjs').OutageMonitor, ackTimeoutMs?: number,
   *   reconnectDelayMs?: number}} options
   *   `bridged`: send the token only in the CONNECT packet, not in the upgrade
   */
  constructor({ hub, token, auth, bridged = false, log, outage, ackTimeoutMs = ACK_TIMEOUT_MS, reconnectDelayMs = 500 }) {
    super();
    this.log = log;
    this.outage = outage;
    this.ackTimeoutMs = ackTimeoutMs;
    /** The current time limit of an acknowledgement. */
    this.currentAckTimeoutMs = ackTimeoutMs;
    this.#elsewhereBackoff = new Backoff({ minMs: REFUSED_DELAY_FACTOR * reconnectDelayMs, maxMs: MAX_ELSEWHERE_PAUSE_MS });
    this.name = auth.clientType;
    const url = new URL(hub);
    this.#socket = io(`${url.origin}/cli`, {
      path: `${url.pathname.replace(/\/+$/, '')}/socket.io/`,
      transports: ['websocket'],
      auth: { token, ...auth },
      ...(bridged ? {} : { extraHeaders: { Authorization: `Bearer ${token}` } }),
      // The library's types lack this value.
      perMessageDeflate: /** @type {any} */ (false),
      autoConnect: false,
      forceNew: true,
      reconnectionDelay: reconnectDelayMs,
      reconnectionDelayMax: Math.max(10_000, reconnectDelayMs),
    });
    const socket = this.#socket;
    outage.on('restored', this.#reconnectNow);
    socket.on('connect', () => {
      this.#wasAccepted = true;
      this.#isReplacing = false;
      outage.reportConnected(this.name);
      this.#lastWarning = '';
      this.emit('connect');
    });
    socket.on('disconnect', (reason) => {
      if (!this.#isClosed && reason !== 'io client disconnect') outage.reportLost(this.name, reason);
      this.emit('disconnect');
      // The client library does not reconnect after a disconnect by the server.
      if (reason === 'io server disconnect') this.#connectLater(reconnectDelayMs);
    });
    socket.on('connect_error', (error) => {
      if (!socket.active && TOKEN_REFUSED.test(error.message)) {
        // A revoked device stays revoked. Any other token that the hub accepted before may be accepted again, because the hub may have
        // a wrong configuration for a while.
        if (!this.#wasAccepted || isDeviceToken(token)) {
          const message = `The hub does not accept the token (${error.message}). ${tokenAdvice(token)}`;
          return this.#closeWith(Object.assign(new RefusedError(message), { isTokenRefused: true }));
        }
        outage.reportRefused(this.name, error.message, tokenAdvice(token));
        return this.#connectLater(REFUSED_DELAY_FACTOR * reconnectDelayMs);
      }
      outage.reportLost(this.name, error.message);
      if (!socket.active) this.#connectLater(2000);
    });
    socket.on('update', (update) => this.emit('update', update?.body ?? {}));
    socket.on('error', (error) => {
      const { message = 'unknown error', code, scope, id } = error ?? {};
      const concernsThisSocket = id === undefined || id === auth.sessionId || id === auth.machineId;
      if (concernsThisSocket && (code === 'access-denied' || code === 'not-found')) {
        this.fail(`The hub refused this ${scope ?? 'connection'}: ${message}.`);
      } else if (concernsThisSocket && code === 'served-elsewhere') {
        this.#waitForOtherInstallation(id);
      } else {
        this.#warnOnce(`error from the hub: ${message}${code ? ` (${code})` : ''}`);
      }
    });
  }

  get isConnected() {
    return this.#socket.connected;
  }

  connect() {
    this.#socket.connect();
  }

  /** Closes permanently and emits `closed` with the message. */
  fail(message) {
    this.#closeWith(new RefusedError(message));
  }

  #closeWith(error) {
    if (this.#isClosed) return;
    this.close();
    this.emit('closed', error);
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    this.outage.off('restored', this.#reconnectNow);
    this.#socket.disconnect();
    this.outage.remove(this.name);
    this.emit('ended');
  }

  /** Replaces a connection on which the hub does not answer. The client library opens a new connection after the old one is closed. */
  reconnect() {
    if (this.#isClosed || this.#isReplacing) return;
    this.#isReplacing = true;
    this.currentAckTimeoutMs = Math.min(this.currentAckTimeoutMs * 2, MAX_ACK_TIMEOUT_MS);
    this.log.debug(`${this.name}: no answer, reconnecting`);
    this.#socket.io.engine?.close();
  }

  /** Sets the handler of the hub's RPCs: `handler({method, params}, ack)`. */
  onRpc(handler) {
    this.#socket.on('rpc-request', handler);
  }

  /** Sends an event. Without a connection, drops the event and returns false. */
  send(event, payload) {
    if (!this.isConnected) return false;
    this.#socket.emit(event, payload);
    return true;
  }

  /**
   * Sends an event on this connection and waits for its acknowledgement.
   * @returns {Promise<{ack: any} | null>} null: not connected, connection lost, or timeout
   */
  async sendWithAck(event, payload) {
    const answer = await this.#emit(event, payload, this.currentAckTimeoutMs);
    if (answer) this.currentAckTimeoutMs = this.ackTimeoutMs;
    return answer;
  }

  /**
   * Waits until the hub has processed all earlier events of this connection. The hub answers a ping also while its database is slow, so
   * the answer does not shorten the time limit of other events.
   * @returns {Promise<boolean>} false: not connected, connection lost, or timeout
   */
  async ping(timeoutMs = this.ackTimeoutMs) {
    return (await this.#emit('ping', {}, timeoutMs)) !== null;
  }

  async #emit(event, payload, timeoutMs) {
    if (!this.isConnected) return null;
    const answer = await new Promise((resolve) => {
      this.#socket.timeout(timeoutMs).emit(event, payload, (error, ack) => resolve(error ? null : { ack }));
    });
    // The hub refuses the first events of a connection, before it acknowledges any.
    if (answer && this.#isServedElsewhere) {
      this.#isServedElsewhere = false;
      this.#elsewhereBackoff.reset();
      this.log.info('The other computer no longer serves the session. This computer serves it now.');
    }
    return answer;
  }

  /**
   * Sends an event until the hub acknowledges it, over any number of connections. The hub may receive the event more than once.
   * @returns {Promise<any>} the acknowledgement
   * @throws {RefusedError} when this socket was closed
   */
  async sendUntilAcked(event, payload) {
    for (;;) {
      await this.whenConnected();
      const answer = await this.sendWithAck(event, payload);
      if (answer) return answer.ack;
      if (this.isConnected) this.reconnect();
    }
  }

  /** Waits for a connection. @throws {RefusedError} when this socket is closed */
  async whenConnected() {
    while (!this.isConnected) {
      if (this.#isClosed) throw new RefusedError('The connection to the hub is closed.');
      await new Promise((resolve) => {
        const done = () => {
          this.off('connect', done);
          this.off('ended', done);
          resolve();
        };
        this.once('connect', done);
        this.once('ended', done);
      });
    }
  }

  /** Logs a warning, but not twice in a row on one connection: the hub may answer each keep-alive with the same error. */
  #warnOnce(text) {
    if (text === this.#lastWarning) this.log.debug(text);
    else this.log.warn(text);
    this.#lastWarning = text;
  }

  /** Reconnects without waiting for the retry timer, after another connection reached the hub. */
  #reconnectNow = () => {
    if (this.isConnected || !this.outage.isWaiting(this.name)) return;
    clearTimeout(this.#retryTimer);
    this.#socket.disconnect().connect();
  };

  /** Closes the connection, and tries again later: until then, this process must not handle messages. */
  #waitForOtherInstallation(sessionId) {
    if (!this.#isServedElsewhere) {
      this.log.warn(
        `Another computer serves the session ${sessionId}. Stop it there, or start here with --new. This process waits for its end.`,
      );
    }
    this.#isServedElsewhere = true;
    this.#socket.disconnect();
    this.#connectLater(this.#elsewhereBackoff.next());
  }

  #connectLater(ms) {
    if (this.#isClosed) return;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.#socket.connect(), ms);
  }
}
