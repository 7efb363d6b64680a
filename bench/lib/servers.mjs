/**
 * The servers that are measured: the hub, and the floor, a minimal worker as the baseline (bench/README.md). Both have the same methods, so
 * that a scenario does the same work with both.
 */

import { eventually } from '../../scripts/lib/await.mjs';
import { Connection, expectOk, sendOnce } from './http.mjs';
import { SECRET } from './hub.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { loadPackage } from './packages.mjs';

/** Connects a CLI with the official client. `headers`: of the upgrade request. Resolves to the socket. */
function connectSocket(url, auth, headers = {}) {
  const { io } = loadPackage('socket.io-client');
  const options = { transports: ['websocket'], forceNew: true, reconnection: false, auth, extraHeaders: headers };
  const socket = io(`${url}/cli`, options);
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket));
    socket.once('connect_error', (error) => {
      socket.close();
      reject(new Error(`a CLI could not connect: ${[error.message, error.description?.message].filter(Boolean).join(': ')}`));
    });
  });
}

/** Returns the body of `POST /cli/sessions`, with typical metadata of some hundred bytes. */
function sessionBody(tag) {
  const path = `/home/someone/code/${tag}`;
  return {
    tag: path,
    metadata: {
      path,
      host: 'workstation',
      os: 'linux',
      version: '1.4.2',
      name: `Session ${tag}`,
      machineId: '0f5c1f7e-6f0e-4e55-9d1c-6d1b2a7c9e10',
      flavor: 'alpha',
      summary: { text: `Refactors the parser of ${tag} and adds tests`, updatedAt: 1_760_000_000_000 },
      homeDir: '/home/someone',
      startedBy: 'terminal',
    },
  };
}

/** @typedef {{name: string, kind: string, url: string, pid: number}} Description `kind`: `floor` or `hub` */

class Server {
  /** @param {Description} description */
  constructor({ name, url, pid }) {
    this.name = name;
    this.url = url;
    this.pid = pid;
  }

  async openSession(tag) {
    const [session] = await /** @type {any} */ (this).openSessions([tag]);
    return session;
  }

  keepAlive(socket, session) {
    socket.emit('session-alive', { sid: session.id, time: Date.now(), thinking: false, mode: 'remote' });
  }
}

/** The baseline: the worker of bench/floor. Methods that only the hub needs do nothing. */
class Floor extends Server {
  kind = 'floor';

  async signIn() {}

  newConnection() {
    return new Connection(this.url);
  }

  async openSessions(tags) {
    return tags.map((tag) => ({ id: tag }));
  }

  connectCli(session) {
    return connectSocket(this.url, { sessionId: session.id });
  }

  async registerMethods() {}

  async activate() {}

  paths(session) {
    return {
      diff: '/rpc?path=small.txt',
      file: '/rpc?path=large.bin',
      messages: '/messages',
      events: `/events?sessionId=${session.id}`,
      page: (beforeSeq) => `/page?beforeSeq=${beforeSeq}`,
    };
  }

  /** The floor does not store messages per session. */
  async readAllMessages() {
    return null;
  }
}

/** A hub, in one namespace. */
export class Hub extends Server {
  kind = 'hub';

  /** Signs in to a namespace with its access token. Stores the JWT for web clients. */
  async signIn(namespace) {
    this.token = `${SECRET}:${namespace}`;
    this.jwt = (await sendOnce(this.url, 'POST', '/api/auth', { accessToken: this.token })).json().token;
  }

  /** Returns the same hub, signed in to another namespace. */
  async inNamespace(namespace) {
    const hub = new Hub(this);
    await hub.signIn(namespace);
    return hub;
  }

  newConnection(token = this.jwt) {
    return new Connection(this.url, { Authorization: `Bearer ${token}` });
  }

  /** Opens sessions, 16 at a time. */
  async openSessions(tags) {
    const connections = Array.from({ length: 16 }, () => this.newConnection(this.token));
    const sessions = new Array(tags.length);
    await inLanes([...tags.entries()], connections.length, async ([index, tag], lane) => {
      const response = await connections[lane].send(connections[lane].withBody('POST', '/cli/sessions', sessionBody(tag)));
      sessions[index] = { id: expectOk(response, 'POST /cli/sessions').json().session.id };
    });
    for (const connection of connections) connection.close();
    return sessions;
  }

  /** Connects a CLI with its token in the CONNECT packet, so that the worker relays its frames; with `isDirect`, in the upgrade request. */
  connectCli({ id: sessionId }, { isDirect = false } = {}) {
    if (isDirect) return connectSocket(this.url, { sessionId }, { Authorization: `Bearer ${this.token}` });
    return connectSocket(this.url, { token: this.token, sessionId });
  }

  /** Sends one request. Resolves to the JSON of the response. Rejects if the status is not 2xx. */
  async request(method, path, body) {
    return (await sendOnce(this.url, method, path, body, { Authorization: `Bearer ${this.jwt}` })).json();
  }

  /** Polls a path until `check` accepts its response. */
  async #poll(what, path, check) {
    const connection = this.newConnection();
    await eventually(async () => check(await connection.send(connection.get(path))), what);
    connection.close();
  }

  /** Registers RPC methods. Waits until `path`, which calls one of the methods, returns `{"success":true,...}`. */
  async registerMethods(socket, session, methods, path) {
    for (const method of methods) socket.emit('rpc-register', { method: `${session.id}:${method}` });
    await this.#poll('the first successful RPC', path, (response) => response.status === 200 && response.json().success === true);
  }

  /** Sends a keep-alive and waits until the session is active. */
  async activate(socket, session) {
    this.keepAlive(socket, session);
    await this.#poll('an active session', `/api/sessions/${session.id}`, (response) => response.json().session.active);
  }

  paths(session) {
    const base = `/api/sessions/${session.id}`;
    return {
      diff: `${base}/git-diff-file?path=small.txt`,
      file: `${base}/file?path=large.bin`,
      messages: `${base}/messages`,
      events: `/api/events?sessionId=${session.id}`,
      page: (beforeSeq) => `${base}/messages?limit=50&beforeSeq=${beforeSeq}`,
    };
  }

  /** Reads all messages of a session in ascending order. */
  async readAllMessages(session) {
    const messages = [];
    for (;;) {
      const path = `${this.paths(session).messages}?limit=200&afterSeq=${messages.at(-1)?.seq ?? 0}`;
      const page = await this.request('GET', path);
      if (page.messages.length === 0) break;
      messages.push(...page.messages);
    }
    return messages;
  }
}

/** @param {Description} description */
export function makeServer(description) {
  return description.kind === 'floor' ? new Floor(description) : new Hub(description);
}
