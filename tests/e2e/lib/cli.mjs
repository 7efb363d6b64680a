/** A command-line process, as far as the hub sees one: the official client on the `/cli` namespace. */

import http from 'node:http';
import { io } from 'socket.io-client';
import { PATIENCE_MS, Recorder, deferred, within } from './await.mjs';

/**
 * How a CLI shows its token: inside CONNECT only, so that the worker has to read it first (`connect`), or with the
 * upgrade, as a header (`header`) or in the query (`query`).
 * @typedef {'connect' | 'header' | 'query'} Way
 */

/** Answers a name lookup with the loopback address, as a wildcard DNS entry would. */
const loopback = (_name, options, done) =>
  options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);

export class Cli {
  /** What the hub sent: `{name, payload}`, calls included. */
  events = new Recorder('what the CLI heard');
  /** Frames as they came over the wire. */
  frames = new Recorder('the frames of the CLI');
  /** When the hub pinged, in Unix milliseconds. The client answers by itself. */
  pings = new Recorder('the pings of the CLI');
  #handlers = new Map();

  /**
   * @param {import('./hub.mjs').Hub} hub
   * @param {{namespace?: string, way?: Way, token?: string, auth?: Record<string, unknown>, label?: string,
   *   reconnection?: boolean, socketNamespace?: string, transports?: string[]}} [options] `auth` goes into CONNECT; its
   *   `token` is left out when it comes with the upgrade. `label`: the first label of the host name to connect to
   */
  constructor(hub, options = {}) {
    const { namespace, way = 'connect', token = hub.token(namespace), auth = {}, label, reconnection = false } = options;
    const { socketNamespace = '/cli', transports = ['websocket'] } = options;
    const url = label === undefined ? hub.url : `http://${label}.hub.test:${hub.port}`;
    this.socket = io(`${url}${socketNamespace}`, {
      autoConnect: false,
      forceNew: true,
      transports,
      reconnection,
      reconnectionDelay: 50,
      reconnectionDelayMax: 250,
      auth: way === 'connect' ? { token, ...auth } : auth,
      ...(way === 'header' ? { extraHeaders: { Authorization: `Bearer ${token}` } } : {}),
      ...(way === 'query' ? { query: { token } } : {}),
      ...(label === undefined ? {} : { agent: new http.Agent({ lookup: loopback }) }),
    });
    this.socket.onAny((name, payload, ack) => this.#heard(name, payload, ack));
    this.socket.io.on('ping', () => this.pings.push(Date.now()));
    // Nothing more will come; with `reconnection` it will.
    if (!reconnection) this.socket.on('disconnect', (reason) => this.events.end(`the socket was closed (${reason})`));
    this.socket.io.on('open', () => {
      this.socket.io.engine.on('packet', ({ type, data }) => type === 'message' && this.frames.push(data));
    });
  }

  /** Connects; fails with the hub's `CONNECT_ERROR`, or with what kept the transport from opening. */
  async connect() {
    const { promise, resolve, reject } = deferred();
    this.socket.once('connect', resolve);
    this.socket.once('connect_error', reject);
    this.socket.connect();
    await within(promise, 'the CLI to connect');
    return this;
  }

  /** Settled when the connection is there again after `act` broke it, which the client is to see within `ms` milliseconds. */
  async reconnected(act, ms = PATIENCE_MS) {
    const { promise, resolve } = deferred();
    const lost = deferred();
    this.socket.once('disconnect', lost.resolve);
    await act();
    await within(lost.promise, 'the CLI to lose its connection', ms);
    if (!this.socket.connected) {
      this.socket.once('connect', resolve);
      await within(promise, 'the CLI to connect again', 60_000);
    }
  }

  /** Emits an event and waits for its acknowledgement. */
  ask(name, payload, ms = PATIENCE_MS) {
    return within(this.socket.emitWithAck(name, payload), `the acknowledgement of ${name}`, ms);
  }

  /** A sign of life of the session; answers what the hub acknowledged. */
  alive(sid, details = {}) {
    return this.ask('session-alive', { sid, time: Date.now(), ...details });
  }

  /** Adds a message to a session's history. */
  say(sid, message, localId) {
    return this.ask('message', { sid, message, ...(localId === undefined ? {} : { localId }) });
  }

  /**
   * Serves a method; the hub knows of it when this is settled.
   * @param {string} name as it is registered: bare, or with its session's or machine's id in front
   * @param {(params: any) => unknown} handler answers the result, or the promise of it
   */
  async serve(name, handler) {
    this.#handlers.set(name, handler);
    return this.ask('rpc-register', { method: name });
  }

  /** The next `error` event. */
  error() {
    return this.events.next(({ name }) => name === 'error', 'an error event').then(({ payload }) => payload);
  }

  /** The next `update` of a kind. */
  update(t) {
    const matches = ({ name, payload }) => name === 'update' && payload.body.t === t;
    return this.events.next(matches, `an update ${t}`).then(({ payload }) => payload.body);
  }

  /** Goes without a goodbye, as a process that was killed. */
  vanish() {
    this.socket.io.engine.transport.ws.terminate();
  }

  close() {
    this.socket.disconnect();
  }

  async #heard(name, payload, ack) {
    this.events.push({ name, payload });
    if (name !== 'rpc-request') return;
    const handler = this.#handlers.get(payload.method);
    // One that is not served here leaves the call unanswered: the hub should not have asked.
    if (handler) ack(JSON.stringify(await handler(JSON.parse(payload.params))));
  }
}

/** A connected CLI; the test that it belongs to closes it. */
export async function connectCli(t, hub, options) {
  const cli = new Cli(hub, options);
  t.after(() => cli.close());
  return cli.connect();
}

/**
 * A session with its connected CLI, which has shown a sign of life: what most tests start from.
 * @returns {Promise<{session: any, cli: Cli}>}
 */
export async function liveSession(t, hub, { namespace, tag, metadata, agentState, ...options }) {
  const session = await hub.web(namespace).session({ tag, metadata, ...(agentState === undefined ? {} : { agentState }) });
  const cli = await connectCli(t, hub, { namespace, ...options, auth: { sessionId: session.id, ...options.auth } });
  await cli.alive(session.id);
  return { session, cli };
}
