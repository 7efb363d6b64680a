/** A CLI: the official Socket.IO client, connected to `/cli`. `npm run smoke` uses this client as well. */

import http from 'node:http';
import { io } from 'socket.io-client';
import { TIMEOUT_MS, Recorder, deferred, withTimeout } from '../../lib/await.mjs';

/**
 * How a CLI sends its token:
 * - `connect`: only in the CONNECT packet. The worker reads this packet to find the namespace, and relays all later packets.
 * - `header`: with the upgrade, in a header
 * - `query`: with the upgrade, in the query
 * @typedef {'connect' | 'header' | 'query'} TokenIn
 */

/**
 * A running hub whose secret is known.
 * @typedef {{url: string, token: (namespace?: string) => string, web: (namespace?: string) => import('./web.mjs').Web}} Hub
 */

/** Resolves every host name to the loopback address, like a wildcard DNS entry. */
const loopback = (_name, options, done) => (options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4));

const KEEP_ALIVE_INTERVAL_MS = 10_000;

export class Cli {
  /** Received events and RPCs: `{name, payload}`. */
  events = new Recorder('the events of the CLI');
  /** Received frames. */
  frames = new Recorder('the frames of the CLI');
  /** Times of received pings, in Unix milliseconds. The client library answers the pings. */
  pings = new Recorder('the pings of the CLI');
  #handlers = new Map();
  #isClosed = false;
  /** The newest keep-alive of each session and machine that this CLI keeps alive. @type {Map<string, {event: string, payload: object}>} */
  #keptAlive = new Map();
  #keepAliveTimer;

  /**
   * @param {Hub | {url: string}} hub without the methods of a `Hub`, the option `token` is required
   * @param {{namespace?: string, tokenIn?: TokenIn, token?: string, auth?: Record<string, unknown>, label?: string,
   *   reconnection?: boolean, socketNamespace?: string, transports?: string[]}} [options] `auth`: the payload of CONNECT,
   *   without the token, which is added if `tokenIn` is `connect`; `label`: the first label of the host name
   */
  constructor(hub, options = {}) {
    const {
      namespace,
      tokenIn = 'connect',
      token = /** @type {Hub} */ (hub).token(namespace),
      auth = {},
      label,
      reconnection = false,
    } = options;
    const { socketNamespace = '/cli', transports = ['websocket'] } = options;
    const url = label === undefined ? hub.url : `http://${label}.hub.test:${new URL(hub.url).port}`;
    const { origin, pathname } = new URL(url);
    this.socket = io(`${origin}${socketNamespace}`, {
      path: `${pathname.replace(/\/$/, '')}/socket.io/`,
      autoConnect: false,
      forceNew: true,
      transports,
      reconnection,
      reconnectionDelay: 50,
      reconnectionDelayMax: 250,
      auth: tokenIn === 'connect' ? { token, ...auth } : auth,
      ...(tokenIn === 'header' ? { extraHeaders: { Authorization: `Bearer ${token}` } } : {}),
      ...(tokenIn === 'query' ? { query: { token } } : {}),
      ...(label === undefined ? {} : { agent: /** @type {any} */ (new http.Agent({ lookup: loopback })) }),
    });
    this.socket.onAny((name, payload, ack) => this.#handleEvent(name, payload, ack));
    this.socket.io.on('ping', () => this.pings.push(Date.now()));
    if (!reconnection) this.socket.on('disconnect', (reason) => this.events.end(`the socket was closed (${reason})`));
    this.socket.io.on('open', () => {
      this.socket.io.engine.on('packet', ({ type, data }) => type === 'message' && this.frames.push(data));
    });
  }

  /** Connects. Rejects with the hub's CONNECT_ERROR or an error of the transport. */
  async connect() {
    const { promise, resolve, reject } = deferred();
    this.socket.once('connect', resolve);
    this.socket.once('connect_error', reject);
    this.socket.connect();
    await withTimeout(promise, 'the CLI to connect');
    return this;
  }

  /** Runs `breakConnection`, which breaks the connection. Waits until the connection is lost (within `ms`) and open again. */
  async waitForReconnect(breakConnection, ms = TIMEOUT_MS) {
    const { promise, resolve } = deferred();
    const lost = deferred();
    this.socket.once('disconnect', lost.resolve);
    await breakConnection();
    await withTimeout(lost.promise, 'the CLI to lose its connection', ms);
    if (!this.socket.connected) {
      this.socket.once('connect', resolve);
      await withTimeout(promise, 'the CLI to connect again', 60_000);
    }
  }

  /** Emits an event and waits for its acknowledgement. */
  emitWithAck(name, payload, ms = TIMEOUT_MS) {
    if (name === 'session-end') this.#keptAlive.delete(payload?.sid);
    return withTimeout(this.socket.emitWithAck(name, payload), `the acknowledgement of ${name}`, ms);
  }

  /** Sends a session's keep-alive, and waits for its acknowledgement. */
  keepAlive(sid, details = {}) {
    if (this.#keptAlive.has(sid)) return this.stayAlive(sid, details);
    return this.emitWithAck('session-alive', { sid, time: Date.now(), ...details });
  }

  /**
   * Sends a session's keep-alive, and repeats its newest keep-alive every 10 s until `session-end` or `close`, as CLIs do. Without
   * them, the hub ends the session after 30 s, which a test on a busy computer may exceed.
   */
  stayAlive(sid, details = {}) {
    return this.#startKeepAlives(sid, 'session-alive', { sid, ...details });
  }

  /** Sends a machine's keep-alive, and repeats it every 10 s until `close`. Without it, the machine is offline after 45 s. */
  machineStaysAlive(machineId) {
    return this.#startKeepAlives(machineId, 'machine-alive', { machineId });
  }

  /** Sends a message to a session, and waits for its acknowledgement. */
  sendMessage(sid, message, localId) {
    return this.emitWithAck('message', { sid, message, ...(localId === undefined ? {} : { localId }) });
  }

  /**
   * Registers an RPC method. Resolves when the method is registered.
   * @param {string} name with or without the session's or machine's id as a prefix
   * @param {(params: any) => unknown} handler returns the result, or a promise of it
   */
  async serve(name, handler) {
    this.#handlers.set(name, handler);
    return this.emitWithAck('rpc-register', { method: name });
  }

  /** Waits for the next `error` event. */
  nextError() {
    return this.events.next(({ name }) => name === 'error', 'an error event').then(({ payload }) => payload);
  }

  /** Waits for the next `update` event of a type. */
  nextUpdate(type) {
    const matches = ({ name, payload }) => name === 'update' && payload.body.t === type;
    return this.events.next(matches, `an update ${type}`).then(({ payload }) => payload.body);
  }

  /** Closes the connection without a close frame, as if the process were killed. */
  terminate() {
    /** @type {any} */ (this.socket.io.engine.transport).ws.terminate();
  }

  close() {
    this.#isClosed = true;
    clearInterval(this.#keepAliveTimer);
    this.socket.disconnect();
  }

  #startKeepAlives(id, event, payload) {
    this.#keptAlive.set(id, { event, payload });
    this.#keepAliveTimer ??= setInterval(() => this.#repeatKeepAlives(), KEEP_ALIVE_INTERVAL_MS).unref();
    return this.emitWithAck(event, { time: Date.now(), ...payload });
  }

  #repeatKeepAlives() {
    // A keep-alive that cannot be sent now is dropped: it must not arrive late. Volatile packets would drop all but the first.
    if (!this.socket.connected || !this.socket.io.engine.transport.writable) return;
    for (const { event, payload } of this.#keptAlive.values()) this.socket.emit(event, { ...payload, time: Date.now() });
  }

  async #handleEvent(name, payload, ack) {
    this.events.push({ name, payload });
    if (name !== 'rpc-request') return;
    const handler = this.#handlers.get(payload.method);
    // An RPC without a handler gets no answer, because the hub must not send such an RPC.
    if (!handler) return;
    try {
      ack(JSON.stringify(await handler(JSON.parse(payload.params))));
    } catch (error) {
      // A handler may wait for the hub when a test ends.
      if (!this.#isClosed) throw error;
    }
  }
}

/** Connects a CLI, and closes it after the test. */
export async function connectCli(t, hub, options) {
  const cli = new Cli(hub, options);
  t.after(() => cli.close());
  return cli.connect();
}

/**
 * Opens a session, connects its CLI and keeps the session alive until the end of the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {Hub} hub
 * @param {ConstructorParameters<typeof Cli>[1] & {tag?: string, metadata?: object, agentState?: unknown, isSilent?: boolean}} options
 *   `isSilent`: sends only one keep-alive, for tests of the hub's timers and of its idle time
 * @returns {Promise<{session: any, cli: Cli}>}
 */
export async function liveSession(t, hub, { namespace, tag, metadata, agentState, isSilent = false, ...options }) {
  const session = await hub.web(namespace).openSession({ tag, metadata, ...(agentState === undefined ? {} : { agentState }) });
  const cli = await connectCli(t, hub, { namespace, ...options, auth: { sessionId: session.id, ...options.auth } });
  await (isSilent ? cli.keepAlive(session.id) : cli.stayAlive(session.id));
  return { session, cli };
}

/**
 * Registers a machine, and keeps it online until the end of the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {Hub} hub
 * @param {{namespace: string, id: string, metadata: object, runnerState?: object}} machine
 * @returns {Promise<Cli>} the machine's runner
 */
export async function liveMachine(t, hub, { namespace, ...machine }) {
  await hub.web(namespace).registerMachine(machine);
  const runner = await connectCli(t, hub, { namespace, auth: { machineId: machine.id } });
  await runner.machineStaysAlive(machine.id);
  return runner;
}
