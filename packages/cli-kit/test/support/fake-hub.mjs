/**
 * An in-memory hub for tests, on the official Socket.IO server, with the part of the CLI interface that the agent uses. Tests can cut the
 * connections and drop acknowledgements.
 */

import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { Server } from 'socket.io';
import { TIMEOUT_MS, TimeoutError } from '../../../../scripts/lib/await.mjs';

export const TOKEN = 'secret:tests';

/** The token of web clients. */
const WEB_TOKEN = 'web';
const REFUSED_TOKEN = { error: 'Bad token', code: 'unauthorized' };

export class FakeHub extends EventEmitter {
  sessions = new Map();
  machines = new Map();
  protocolVersion = 1;
  /** The only valid token, apart from those of devices. */
  token = TOKEN;
  /** The devices by their tokens. @type {Map<string, {id: string, name: string, kind: string}>} */
  devices = new Map();
  /** The requests for access that are pending or decided. */
  accessRequests = [];
  /** The unused codes that the console shows. @type {Set<string>} */
  codes = new Set();
  /** Fields that replace those of the answers about pairing. */
  pairingAnswer = {};
  /** Whether the hub has pairing. Hubs of earlier versions have none. */
  hasPairing = true;
  /** The status with which the hub answers every request; undefined while there is no outage. @type {number | undefined} */
  outageStatus;
  /** Matches the paths that are answered with `outageStatus`. */
  outagePath = /^/;
  /** The body of an answer with `outageStatus`. */
  outageBody = { error: 'Overloaded', code: 'unavailable' };
  /** Number of sockets that were refused because another installation serves their session. */
  refusedSockets = 0;
  /** Number of requests that were answered with `outageStatus`. */
  refusedRequests = 0;
  /** @type {import('node:http').Server} */
  http;
  /** @type {Server} */
  io;
  /** @type {import('socket.io').Namespace} */
  cli;
  url = '';
  /** Returns whether the acknowledgement of a message is lost. @type {((message: any, isKnown: boolean) => boolean) | undefined} */
  dropAck;
  /** The sockets that registered methods, by `SCOPE:METHOD`. */
  #methodSockets = new Map();
  /** The numbers of received events, by name. */
  #eventCounts = new Map();

  static async start() {
    const hub = new FakeHub();
    hub.setMaxListeners(0);
    hub.http = createServer((request, response) => hub.#handleRequest(request, response));
    hub.io = new Server(hub.http, { path: '/socket.io/', transports: ['websocket'], maxHttpBufferSize: 1e8 });
    hub.cli = hub.io.of('/cli');
    hub.cli.use((socket, next) => next(hub.#accepts(socket.handshake.auth.token) ? undefined : new Error('Invalid token')));
    hub.cli.on('connection', (socket) => hub.#handleConnection(socket));
    hub.http.listen(0, '127.0.0.1');
    await once(hub.http, 'listening');
    hub.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (hub.http.address()).port}`;
    return hub;
  }

  async stop() {
    await this.io.close();
  }

  // --- methods for tests -------------------------------------------------------------------------------------------

  /** Sends a message as a web user. */
  postMessage(sid, text, attachments) {
    const content = {
      role: 'user',
      content: { type: 'text', text, ...(attachments ? { attachments } : {}) },
      meta: { sentFrom: 'web' },
    };
    return this.#append(this.sessions.get(sid), content, randomUUID());
  }

  /** Calls a method, as the hub does for a REST request. */
  async call(scope, method, params = {}) {
    const socket = this.#methodSockets.get(`${scope}:${method}`);
    if (!socket) return { success: false, error: `No handler registered for ${method}` };
    const answer = await socket.timeout(30_000).emitWithAck('rpc-request', {
      method: `${scope}:${method}`,
      params: JSON.stringify(params),
    });
    return JSON.parse(answer);
  }

  registeredMethods(scope) {
    return [...this.#methodSockets.keys()].filter((name) => name.startsWith(`${scope}:`)).map((name) => name.slice(scope.length + 1));
  }

  /** Cuts all connections without a disconnect packet, as in a network failure. */
  cutConnections() {
    for (const socket of this.cli.sockets.values()) /** @type {any} */ (socket.conn.transport).socket.terminate();
  }

  /** Returns the agent's visible messages in a session, in order, each as a string. Joins the pieces of a tool result. */
  transcript(sid) {
    const lines = [];
    let output = null;
    for (const { content } of this.sessions.get(sid).messages) {
      const result = content.content.data?.message?.content?.[0];
      if (content.content.data?.isMeta) continue;
      if (result?.type === 'tool_result') {
        output ??= lines.push('') - 1;
        lines[output] = (result.is_error ? '! ' : '') + lines[output] + result.content;
      } else if (content.role !== 'user') {
        output = null;
        lines.push(lineOf(content));
      }
    }
    return lines;
  }

  /** Waits until the agent has sent `ready` the given number of times. */
  untilReady(sid, times) {
    const count = () => this.transcript(sid).filter((line) => line === '(ready)').length;
    return this.waitUntil(() => count() >= times, `the agent to be ready ${times} times`);
  }

  /** Waits until `test` returns a truthy value. Resolves to this value. Runs `test` after every change of the hub's state. */
  async waitUntil(test, what = 'the expected event', ms = TIMEOUT_MS) {
    const signal = AbortSignal.timeout(ms);
    for (;;) {
      const found = test();
      if (found) return found;
      await once(this, 'change', { signal }).catch(() => {
        throw new TimeoutError(what, ms);
      });
    }
  }

  /** Returns the id of a session's pending permission request; undefined if there is none. */
  pendingRequest(sid) {
    return Object.keys(this.sessions.get(sid)?.agentState?.requests ?? {})[0];
  }

  /** Aborts the agent's task. The session is inactive until the next keep-alive. */
  async abort(sid) {
    const answer = await this.call(sid, 'abort', { reason: 'enough' });
    this.sessions.get(sid).active = false;
    return answer;
  }

  /** Archives a session: ends its agent and cancels its requests. */
  async archive(sid) {
    await this.call(sid, 'killSession');
    const session = this.sessions.get(sid);
    Object.assign(session, { active: false, metadataVersion: session.metadataVersion + 1 });
    session.metadata = { ...session.metadata, lifecycleState: 'archived', archivedBy: 'web', archiveReason: 'Done' };
    this.changeState(sid, ({ requests, ...state }) => {
      const canceled = Object.entries(requests).map(([id, request]) => [id, { ...request, status: 'canceled' }]);
      return { ...state, requests: {}, completedRequests: { ...state.completedRequests, ...Object.fromEntries(canceled) } };
    });
  }

  /** Renames a session. Its CLI receives the update. */
  async rename(sid, name) {
    const session = this.sessions.get(sid);
    session.metadata = { ...session.metadata, name };
    session.metadataVersion += 1;
    this.#publish(session, null, {
      t: 'update-session',
      sid,
      metadata: { version: session.metadataVersion, value: session.metadata },
      agentState: null,
    });
  }

  /** Resumes a session on a machine as the hub does. */
  resume(machineId, sid) {
    const { path, flavor, [`${flavor}SessionId`]: resumeSessionId } = this.sessions.get(sid).metadata;
    return this.call(machineId, 'spawnSession', { directory: path, agent: flavor, sessionId: sid, resumeSessionId });
  }

  /** Waits for a device that asks for access with a code that has no decision yet, and returns the request. */
  untilAccessRequested() {
    return this.waitUntil(() => this.accessRequests.find(({ decision }) => decision === undefined), 'a request for access');
  }

  /** Decides as a person at the console. @param {'approve' | 'deny' | 'expire'} decision */
  decide(code, decision) {
    this.accessRequests.find((request) => request.code === code).decision = decision;
  }

  /** Revokes all devices: their tokens are refused, and their connections are cut. */
  revokeDevices() {
    const tokens = [...this.devices.keys()];
    this.devices.clear();
    for (const socket of this.cli.sockets.values()) if (tokens.includes(socket.handshake.auth.token)) socket.disconnect(true);
  }

  changeState(sid, change) {
    const session = this.sessions.get(sid);
    session.agentState = change(session.agentState);
    session.agentStateVersion += 1;
    this.#publish(session, null, {
      t: 'update-session',
      sid,
      metadata: null,
      agentState: { version: session.agentStateVersion, value: session.agentState },
    });
  }

  /** The number of times an event was received. */
  count(event) {
    return this.#eventCounts.get(event) ?? 0;
  }

  /** Removes the older messages of a session, and the records of its events, so that a long test needs little memory. */
  forget(sid, keptMessages) {
    const session = this.sessions.get(sid);
    session.forgotten = (session.forgotten ?? 0) + session.messages.splice(0, Math.max(0, session.messages.length - keptMessages)).length;
    for (const events of ['deltas', 'thinkingChanges', 'activities']) delete session[events];
  }

  // --- the hub's interface -----------------------------------------------------------------------------------------

  async #handleRequest(request, response) {
    const answer = (status, body) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (request.url === '/health') return answer(200, { status: 'ok', protocolVersion: this.protocolVersion });
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = text === '' ? {} : JSON.parse(text);
    const url = new URL(request.url, this.url);
    const [, , kind, id, subresource] = url.pathname.split('/');
    if (this.outageStatus !== undefined && this.outagePath.test(url.pathname)) {
      this.refusedRequests += 1;
      setImmediate(() => this.emit('change'));
      return answer(this.outageStatus, this.outageBody);
    }
    if (url.pathname === '/api/devices' && this.hasPairing) return answer(...this.#redeemCode(body));
    if (kind === 'devices' && request.method === 'DELETE') return answer(200, this.#removeDevice(id));
    if (kind === 'devices' && this.hasPairing)
      return answer(...(subresource === 'token' ? this.#pollAccess(body) : this.#requestAccess(body)));
    const isWeb = /^\/api\/(sessions|machines)\b/.test(request.url);
    const token = request.headers.authorization?.replace('Bearer ', '');
    if (isWeb ? token !== WEB_TOKEN : !this.#accepts(token)) return answer(401, REFUSED_TOKEN);
    if (kind === 'auth')
      return this.#accepts(body.accessToken) ? answer(200, { token: WEB_TOKEN, namespace: 'tests' }) : answer(401, REFUSED_TOKEN);
    if (subresource === 'agent-sessions') return answer(200, await this.call(id, 'importAgentSession', body));
    if (request.method === 'POST' && kind === 'sessions') return answer(200, { session: this.#openSession(body) });
    if (request.method === 'POST' && kind === 'machines') return answer(200, { machine: this.#openMachine(body) });
    if (request.method === 'GET' && kind === 'sessions' && id === undefined) return answer(200, this.#listSessions(url));
    const session = this.sessions.get(id);
    if (kind !== 'sessions' || !session) return answer(404, { error: 'Not found', code: 'session_not_found' });
    if (request.method === 'DELETE') {
      if (!isWeb || session.active) return answer(409, { error: 'Active', code: 'session_active' });
      this.sessions.delete(id);
      return answer(200, { ok: true });
    }
    if (subresource !== 'messages') return answer(200, { session: view(session) });
    const after = Number(url.searchParams.get('afterSeq'));
    const limit = Number(url.searchParams.get('limit') ?? 200);
    return answer(200, { messages: session.messages.filter(({ seq }) => seq > after).slice(0, limit) });
  }

  /** One session per page. */
  #listSessions({ searchParams }) {
    const at = Number(searchParams.get('cursor') ?? 0);
    const all = [...this.sessions.values()];
    return { sessions: all.slice(at, at + 1).map(view), ...(at + 1 < all.length ? { nextCursor: String(at + 1) } : {}) };
  }

  #accepts(token) {
    return token === this.token || this.devices.has(token);
  }

  #redeemCode({ code, name, kind }) {
    if (!this.codes.delete(code)) return [404, { error: 'This code is not valid.', code: 'unknown_code' }];
    return [200, { ...this.#addDevice(name, kind), ...this.pairingAnswer }];
  }

  #removeDevice(id) {
    for (const [token, device] of this.devices) if (device.id === id) this.devices.delete(token);
    return { ok: true };
  }

  #requestAccess({ name, kind }) {
    const code = `R${String(this.accessRequests.length).padStart(3, 'A')}-EFGH`;
    const request = { name, kind, code, secret: randomUUID(), decision: undefined };
    this.accessRequests.push(request);
    setImmediate(() => this.emit('change'));
    const answer = { code, secret: request.secret, url: `${this.url}/pair#${code}`, expiresAt: Date.now() + 300_000, intervalMs: 10 };
    return [200, { ...answer, ...this.pairingAnswer }];
  }

  #pollAccess({ secret }) {
    const { decision, name, kind } = this.accessRequests.find((request) => request.secret === secret) ?? {};
    if (decision === undefined) return [200, { status: 'pending' }];
    if (decision === 'deny') return [403, { error: 'Denied', code: 'request_denied' }];
    if (decision === 'expire') return [404, { error: 'Expired', code: 'unknown_code' }];
    return [200, { status: 'approved', ...this.#addDevice(name, kind), ...this.pairingAnswer }];
  }

  #addDevice(name, kind) {
    const token = `sgd_${randomUUID().replaceAll('-', '')}abcdefghijk`;
    const device = { id: randomUUID(), name, kind };
    this.devices.set(token, device);
    return { device, token, namespace: 'tests' };
  }

  #openSession({ tag, metadata, agentState, model }) {
    let session = [...this.sessions.values()].find((candidate) => candidate.tag === tag);
    if (!session) {
      const id = randomUUID();
      session = {
        id,
        tag,
        metadata,
        agentState,
        modelMode: model,
        metadataVersion: 1,
        agentStateVersion: 1,
        messages: [],
      };
      this.sessions.set(id, session);
    }
    return view(session);
  }

  #openMachine({ id, metadata, runnerState }) {
    const known = this.machines.get(id) ?? { id, metadata, runnerState, metadataVersion: 1, runnerStateVersion: 1 };
    this.machines.set(id, known);
    return known;
  }

  #handleConnection(socket) {
    const { sessionId, machineId } = socket.handshake.auth;
    socket.onAny((event) => {
      this.#eventCounts.set(event, this.count(event) + 1);
      setImmediate(() => this.emit('change'));
    });
    this.upgradeToken = socket.handshake.headers.authorization;
    if (sessionId && !this.sessions.has(sessionId)) {
      socket.emit('error', { message: 'Session not found', code: 'not-found', scope: 'session', id: sessionId });
      return;
    }
    const refusal = { message: 'Another computer serves this session', code: 'served-elsewhere', scope: 'session' };
    if (sessionId && this.#isServedElsewhere(socket, sessionId)) {
      this.refusedSockets += 1;
      socket.emit('error', { ...refusal, id: sessionId });
    }
    socket.use(([event, { method = '', sid = method.split(':')[0] } = {}, ack], next) => {
      if (event === 'ping' || !this.#isServedElsewhere(socket, sid)) return next();
      ack?.({ ok: false, result: 'error', ...refusal });
      socket.emit('error', { ...refusal, id: sid });
    });
    const scoped = (method) => (method.includes(':') ? method : `${sessionId ?? machineId}:${method}`);
    socket.on('rpc-register', ({ method }) => this.#methodSockets.set(scoped(method), socket));
    socket.on('rpc-unregister', ({ method }) => this.#methodSockets.delete(scoped(method)));
    socket.on('disconnect', () => {
      for (const [name, owner] of this.#methodSockets) if (owner === socket) this.#methodSockets.delete(name);
      this.emit('change');
    });
    socket.on('ping', (_payload, ack) => ack?.());
    socket.on('message', ({ sid, message, localId }, ack) => {
      const session = this.sessions.get(sid);
      const known = session.messages.find((candidate) => candidate.localId === localId);
      const stored = known ?? this.#append(session, message, localId, socket);
      if (this.dropAck?.(stored, known !== undefined)) return;
      ack?.({ ok: true, id: stored.id, seq: stored.seq });
    });
    const versioned = (event, field, find) =>
      socket.on(event, (payload, ack) => {
        const owner = find(payload);
        const version = `${field}Version`;
        if (payload.expectedVersion !== owner[version]) {
          return ack({ result: 'version-mismatch', version: owner[version], [field]: owner[field] });
        }
        owner[field] = payload[field];
        owner[version] += 1;
        return ack({ result: 'success', version: owner[version], [field]: owner[field] });
      });
    versioned('update-state', 'agentState', ({ sid }) => this.sessions.get(sid));
    versioned('update-metadata', 'metadata', ({ sid }) => this.sessions.get(sid));
    versioned('machine-update-state', 'runnerState', (payload) => this.machines.get(payload.machineId));
    versioned('machine-update-metadata', 'metadata', (payload) => this.machines.get(payload.machineId));
    socket.on('session-alive', ({ sid, thinking, mode, permissionMode, modelMode, activity }) => {
      const session = this.sessions.get(sid);
      if (session.thinking !== thinking) (session.thinkingChanges ??= []).push(thinking);
      if (session.activity !== activity) (session.activities ??= []).push(activity);
      Object.assign(session, { active: true, thinking, mode, permissionMode, activity, ...(modelMode ? { modelMode } : {}) });
    });
    socket.on('message-delta', ({ sid, ...delta }) => (this.sessions.get(sid).deltas ??= []).push(delta));
    socket.on('session-end', ({ sid }) => Object.assign(this.sessions.get(sid), { active: false }));
    this.emit('change');
  }

  /** Whether a socket of another installation serves the session. Otherwise, this socket serves the session from now on. */
  #isServedElsewhere(socket, sid) {
    if (!this.sessions.has(sid)) return false;
    const { installationId } = socket.handshake.auth;
    const isOther = ({ data, handshake }) =>
      data.servedSession === sid && ![undefined, installationId].includes(handshake.auth.installationId);
    if (installationId !== undefined && [...this.cli.sockets.values()].some(isOther)) return true;
    socket.data.servedSession = sid;
    return false;
  }

  #append(session, content, localId, from = null) {
    const message = { id: randomUUID(), seq: lastSeqOf(session) + 1, createdAt: Date.now(), localId, content };
    session.messages.push(message);
    this.#publish(session, from, { t: 'new-message', sid: session.id, message });
    return message;
  }

  #publish(session, from, body) {
    const update = { id: randomUUID(), seq: 1, createdAt: Date.now(), body };
    for (const socket of this.cli.sockets.values()) {
      if (socket !== from && socket.handshake.auth.sessionId === session.id) socket.emit('update', update);
    }
    setImmediate(() => this.emit('change'));
  }
}

const lastSeqOf = ({ messages, forgotten = 0 }) => forgotten + messages.length;

function view(session) {
  const { messages: _, forgotten: _forgotten, ...others } = session;
  return { ...others, seq: lastSeqOf(session) };
}

/** A message as one string: `> command`, its text, or `(ready)`. */
function lineOf(content) {
  if (content.content.data.type === 'ready') return '(ready)';
  const { type, message, entries } = content.content.data;
  if (type === 'plan') return `(todos: ${entries.length})`;
  // An event with a text.
  if (typeof message === 'string') return `(${type}: ${message})`;
  const [part] = message.content;
  if (part.type === 'tool_use') return part.name === 'TodoWrite' ? `(todos: ${part.input.todos.length})` : `> ${part.input.command}`;
  return part.text;
}
