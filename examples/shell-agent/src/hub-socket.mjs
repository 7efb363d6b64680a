/**
 * One Socket.IO connection to the hub's `/cli` namespace, which comes back by itself after every loss.
 *
 * Events: `connect` (every time), `disconnect`, `update` (its body), `closed` with an `Error` when the hub will not have
 * this client at all.
 */

import { EventEmitter } from 'node:events';
import { io } from 'socket.io-client';
import { TOKEN_ADVICE } from './token.mjs';

/** The hub refused the connection or the session for good. */
export class RefusedError extends Error {}

/** Reasons of CONNECT_ERROR that a second try does not change. */
const FINAL = /invalid (token|namespace)|namespace/i;

/** How many times longer than after a loss the next try waits when the hub refuses the token. */
const REFUSED_FACTOR = 20;

export class HubSocket extends EventEmitter {
  #socket;
  #closed = false;
  #accepted = false;
  #retry = null;
  #reported = '';

  /**
   * @param {{hub: string, token: string, auth: Record<string, unknown>, bridged?: boolean,
   *   log: ReturnType<typeof import('./log.mjs').makeLog>, outage: import('./outage.mjs').Outage, ackMs?: number,
   *   reconnectMs?: number}} options
   *   `bridged`: keep the token out of the upgrade, so that the hub only learns it from the CONNECT packet
   */
  constructor({ hub, token, auth, bridged = false, log, outage, ackMs = 8000, reconnectMs = 500 }) {
    super();
    this.log = log;
    this.outage = outage;
    this.ackMs = ackMs;
    this.name = auth.clientType;
    const url = new URL(hub);
    this.#socket = io(`${url.origin}/cli`, {
      path: `${url.pathname.replace(/\/+$/, '')}/socket.io/`,
      transports: ['websocket'],
      auth: { token, ...auth },
      ...(bridged ? {} : { extraHeaders: { Authorization: `Bearer ${token}` } }),
      perMessageDeflate: false,
      autoConnect: false,
      forceNew: true,
      reconnectionDelay: reconnectMs,
      reconnectionDelayMax: Math.max(10_000, reconnectMs),
    });
    const socket = this.#socket;
    outage.on('back', this.#hurry);
    socket.on('connect', () => {
      this.#accepted = true;
      outage.back(this.name);
      this.#reported = '';
      this.emit('connect');
    });
    socket.on('disconnect', (reason) => {
      if (!this.#closed) outage.lost(this.name, reason);
      this.emit('disconnect');
      // When the server says goodbye, the client library leaves coming back to us.
      if (reason === 'io server disconnect') this.#connectLater(reconnectMs);
    });
    socket.on('connect_error', (error) => {
      if (!socket.active && FINAL.test(error.message)) {
        if (!this.#accepted) return this.fail(`The hub refused the connection: ${error.message}. ${TOKEN_ADVICE}`);
        outage.refused(this.name, error.message);
        return this.#connectLater(REFUSED_FACTOR * reconnectMs);
      }
      outage.lost(this.name, error.message);
      if (!socket.active) this.#connectLater(2000);
    });
    socket.on('update', (update) => this.emit('update', update?.body ?? {}));
    socket.on('error', (error) => {
      const { message = 'unknown error', code, scope, id } = error ?? {};
      const own = id === undefined || id === auth.sessionId || id === auth.machineId;
      if (own && (code === 'access-denied' || code === 'not-found')) {
        this.fail(`The hub says of this ${scope ?? 'connection'}: ${message}.`);
      } else {
        this.#report(`the hub reports: ${message}${code ? ` (${code})` : ''}`);
      }
    });
  }

  get connected() {
    return this.#socket.connected;
  }

  connect() {
    this.#socket.connect();
  }

  /** Ends for good, with a reason for whoever listens to `closed`. */
  fail(message) {
    if (this.#closed) return;
    this.close();
    this.emit('closed', new RefusedError(message));
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.outage.off('back', this.#hurry);
    this.#socket.disconnect();
    this.outage.forget(this.name);
    this.emit('ended');
  }

  /** Drops the connection, which then comes back: for when the hub stopped answering on this one. */
  cycle() {
    if (this.#closed) return;
    this.log.debug(`${this.name}: no answer, connecting anew`);
    this.#socket.io.engine?.close();
  }

  /** Answers the hub's calls with `handler({method, params}, ack)`. */
  onCall(handler) {
    this.#socket.on('rpc-request', handler);
  }

  /** Sends an event; without a connection it is dropped (false), never kept for later. */
  send(event, payload) {
    if (!this.connected) return false;
    this.#socket.emit(event, payload);
    return true;
  }

  /**
   * Sends an event on this connection and waits for its acknowledgement.
   * @returns {Promise<{ack: any} | null>} null: no connection, it was lost, or no answer in time
   */
  async ask(event, payload, ackMs = this.ackMs) {
    if (!this.connected) return null;
    return new Promise((resolve) => {
      this.#socket.timeout(ackMs).emit(event, payload, (error, ack) => resolve(error ? null : { ack }));
    });
  }

  /**
   * Sends an event until it is acknowledged, over as many connections as that takes. The hub may see it more than once.
   * @returns {Promise<any>} the acknowledgement
   * @throws {RefusedError} when this socket was closed
   */
  async request(event, payload) {
    for (;;) {
      await this.whenConnected();
      const answer = await this.ask(event, payload);
      if (answer) return answer.ack;
      if (this.connected) this.cycle();
    }
  }

  async whenConnected() {
    while (!this.connected) {
      if (this.#closed) throw new RefusedError('The connection to the hub is closed.');
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

  /** A sign of life may get the same error every few seconds: it is told once on a connection. */
  #report(text) {
    if (text === this.#reported) this.log.debug(text);
    else this.log.warn(text);
    this.#reported = text;
  }

  /** The hub is there again, as another connection found: what waits for its next try tries now. */
  #hurry = () => {
    if (this.connected || !this.outage.misses(this.name)) return;
    clearTimeout(this.#retry);
    this.#socket.disconnect().connect();
  };

  #connectLater(ms) {
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#socket.connect(), ms);
  }
}
