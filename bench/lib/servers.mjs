/**
 * The servers that are measured: the hub, and the floor, a minimal worker as the baseline (bench/README.md). Both have the same methods, so
 * that a scenario does the same work with both.
 */

import { Connection, expectOk, sendOnce } from './http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { waitUntil } from './measure.mjs';
import { loadPackage } from './packages.mjs';

/**
 * Connects one CLI with the official client. `tokenIn` is where the CLI sends the token: `header` is a header of the upgrade, `connect` is
 * the CONNECT packet. With `connect`, the worker relays all frames between the CLI and the Durable Object.
 * @param {string} url
 * @param {{token?: string, sessionId: string, tokenIn: string}} options
 * @returns {Promise<any>} the socket
 */
function connectSocket(url, { token, sessionId, tokenIn }) {
  const { io } = loadPackage('socket.io-client');
  const socket = io(`${url}/cli`, {
    transports: ['websocket'],
    forceNew: true,
    reconnection: false,
    auth: tokenIn === 'header' ? { sessionId } : { token, sessionId },
    ...(tokenIn === 'header' && token ? { extraHeaders: { Authorization: `Bearer ${token}` } } : {}),
  });
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket));
    socket.once('connect_error', (error) => {
      socket.close();
      reject(new Error(`a CLI could not connect: ${[error.message, error.description?.message].filter(Boolean).join(': ')}`));
    });
  });
}

function sendKeepAlive(socket, session) {
  socket.emit('session-alive', { sid: session.id, time: Date.now(), thinking: false, mode: 'remote' });
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

/** The baseline: the worker of bench/floor. Methods that only the hub needs do nothing. */
class Floor {
  kind = 'floor';

  constructor({ name, url, pid }) {
    this.name = name;
    this.url = url;
    this.pid = pid;
  }

  async signIn() {}

  newConnection() {
    return new Connection(this.url);
  }

  /** Returns a connection that may create sessions. */
  newCliConnection() {
    return this.newConnection();
  }

  sessionRequest(connection, tag) {
    return connection.withBody('POST', '/sessions', sessionBody(tag));
  }

  async openSession(tag) {
    return { id: tag };
  }

  async openSessions(tags) {
    return tags.map((tag) => ({ id: tag }));
  }

  connectCli(session) {
    return connectSocket(this.url, { sessionId: session.id, tokenIn: 'connect' });
  }

  async registerMethods() {}

  async activate() {}

  keepAlive(socket, session) {
    sendKeepAlive(socket, session);
  }

  paths(session) {
    return {
      diff: '/rpc?path=small.txt',
      file: '/rpc?path=big.bin',
      messages: '/messages',
      events: `/events?sessionId=${session.id}`,
      page: (beforeSeq) => `/page?beforeSeq=${beforeSeq}`,
      list: (bytes) => `/object?bytes=${bytes}`,
    };
  }

  /** The floor does not store messages per session. */
  async readAllMessages() {
    return null;
  }
}

/** A hub, in one namespace. */
export class Hub {
  kind = 'hub';

  /** @param {Description} description */
  constructor({ name, url, pid, secret, tokenIn }) {
    this.name = name;
    this.url = url;
    this.pid = pid;
    this.secret = secret;
    this.tokenIn = tokenIn;
  }

  /** Signs in to a namespace with its access token. Stores the JWT for web clients. */
  async signIn(namespace) {
    this.token = `${this.secret}:${namespace}`;
    const response = await sendOnce(this.url, 'POST', '/api/auth', { body: { accessToken: this.token } });
    this.jwt = response.json().token;
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

  newCliConnection() {
    return this.newConnection(this.token);
  }

  /** Returns the request that creates a session. */
  sessionRequest(connection, tag) {
    return connection.withBody('POST', '/cli/sessions', sessionBody(tag));
  }

  async openSession(tag) {
    const [session] = await this.openSessions([tag]);
    return session;
  }

  /** Opens sessions, 16 at a time. */
  async openSessions(tags) {
    const connections = Array.from({ length: 16 }, () => this.newCliConnection());
    const sessions = new Array(tags.length);
    await inLanes([...tags.entries()], connections.length, async ([index, tag], lane) => {
      const response = await connections[lane].send(this.sessionRequest(connections[lane], tag));
      sessions[index] = { id: expectOk(response, 'POST /cli/sessions').json().session.id };
    });
    for (const connection of connections) connection.close();
    return sessions;
  }

  connectCli(session, tokenIn = this.tokenIn) {
    return connectSocket(this.url, { token: this.token, sessionId: session.id, tokenIn });
  }

  /** Registers RPC methods. Waits until `path`, which calls one of the methods, returns `{"success":true,...}`. */
  async registerMethods(socket, session, methods, path) {
    for (const method of methods) socket.emit('rpc-register', { method: `${session.id}:${method}` });
    const connection = this.newConnection();
    await waitUntil('the first RPC to succeed', async () => {
      const response = await connection.send(connection.get(path));
      return response.status === 200 && response.json().success === true;
    });
    connection.close();
  }

  /** Sends a keep-alive and waits until the session is active. */
  async activate(socket, session) {
    this.keepAlive(socket, session);
    const connection = this.newConnection();
    await waitUntil('the session to be active', async () => {
      const response = await connection.send(connection.get(`/api/sessions/${session.id}`));
      return expectOk(response, 'GET session').json().session.active;
    });
    connection.close();
  }

  keepAlive(socket, session) {
    sendKeepAlive(socket, session);
  }

  paths(session) {
    const base = `/api/sessions/${session.id}`;
    return {
      diff: `${base}/git-diff-file?path=small.txt`,
      file: `${base}/file?path=big.bin`,
      messages: `${base}/messages`,
      events: `/api/events?sessionId=${session.id}`,
      page: (beforeSeq) => `${base}/messages?limit=50&beforeSeq=${beforeSeq}`,
      list: () => '/api/sessions',
    };
  }

  /** Reads all messages of a session in ascending order. */
  async readAllMessages(session) {
    const connection = this.newConnection();
    const messages = [];
    for (;;) {
      const afterSeq = messages.at(-1)?.seq ?? 0;
      const request = connection.get(`/api/sessions/${session.id}/messages?limit=200&afterSeq=${afterSeq}`);
      const page = expectOk(await connection.send(request), 'GET messages').json().messages;
      if (page.length === 0) break;
      messages.push(...page);
    }
    connection.close();
    return messages;
  }
}

/**
 * @typedef {{name: string, kind: string, url: string, pid: number, secret?: string, tokenIn?: string}} Description `kind`: `floor` or `hub`
 */

/** @param {Description} description */
export function makeServer(description) {
  return description.kind === 'floor' ? new Floor(description) : new Hub(description);
}
