/**
 * The two sides of every comparison. Floor and hub offer the same few verbs, so a scenario is written once and what
 * differs between its two figures is the server alone.
 */

import { Connection, expectOk, once } from './http.mjs';
import { inLanes, until } from './measure.mjs';
import { load } from './packages.mjs';

/**
 * Connects one CLI with the official client. `way` `connect` sends the token inside the CONNECT packet, as an unchanged
 * CLI does; `header` sends it with the upgrade, which spares the hub the bridge.
 */
function connectSocket(url, { token, sessionId, way }) {
  const { io } = load('socket.io-client');
  const socket = io(`${url}/cli`, {
    transports: ['websocket'],
    forceNew: true,
    reconnection: false,
    auth: way === 'header' ? { sessionId } : { token, sessionId },
    ...(way === 'header' && token ? { extraHeaders: { Authorization: `Bearer ${token}` } } : {}),
  });
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket));
    socket.once('connect_error', (error) => {
      socket.close();
      reject(new Error(`a CLI could not connect: ${error.message}`));
    });
  });
}

function sayAlive(socket, session) {
  socket.emit('session-alive', { sid: session.id, time: Date.now(), thinking: false, mode: 'remote' });
}

/** The runtime without the hub: bench/floor/worker.mjs. */
class Floor {
  name = 'floor';

  constructor({ url, pid }) {
    this.url = url;
    this.pid = pid;
  }

  async enter() {}

  newConnection() {
    return new Connection(this.url);
  }

  async openSession(tag) {
    return { id: tag };
  }

  async openSessions(tags) {
    return tags.map((tag) => ({ id: tag }));
  }

  connectCli(session) {
    return connectSocket(this.url, { sessionId: session.id, way: 'connect' });
  }

  async serve() {}

  async activate() {}

  keepAlive(socket, session) {
    sayAlive(socket, session);
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

  /** The floor keeps no sessions apart; its acks already name a gapless row of seqs. */
  async readBack() {
    return null;
  }
}

/** The hub, in a namespace of the scenario's own. */
export class Hub {
  name = 'hub';

  constructor({ url, pid, secret, way }) {
    this.url = url;
    this.pid = pid;
    this.secret = secret;
    this.way = way;
  }

  /** Signs in to a namespace as a web client does (JWT) and as a CLI does (access token). */
  async enter(namespace) {
    this.token = `${this.secret}:${namespace}`;
    const answer = await once(this.url, 'POST', '/api/auth', { body: { accessToken: this.token } });
    this.jwt = answer.json().token;
  }

  /** The same hub, signed in to another namespace. */
  async inNamespace(namespace) {
    const side = new Hub(this);
    await side.enter(namespace);
    return side;
  }

  newConnection(token = this.jwt) {
    return new Connection(this.url, { Authorization: `Bearer ${token}` });
  }

  async openSession(tag) {
    const [session] = await this.openSessions([tag]);
    return session;
  }

  /** Sessions as a real CLI opens them: metadata of some hundred bytes, sixteen at once. */
  async openSessions(tags) {
    const connections = Array.from({ length: 16 }, () => this.newConnection(this.token));
    const sessions = new Array(tags.length);
    await inLanes([...tags.entries()], connections.length, async ([index, tag], lane) => {
      const path = `/home/someone/code/${tag}`;
      const body = {
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
      const answer = await connections[lane].send(connections[lane].withBody('POST', '/cli/sessions', body));
      sessions[index] = { id: expectOk(answer, 'POST /cli/sessions').json().session.id };
    });
    for (const connection of connections) connection.close();
    return sessions;
  }

  connectCli(session, way = this.way) {
    return connectSocket(this.url, { token: this.token, sessionId: session.id, way });
  }

  /** Registers RPC methods and waits until calls arrive: `path` must answer `{"success":true,...}`. */
  async serve(socket, session, methods, path) {
    for (const method of methods) socket.emit('rpc-register', { method: `${session.id}:${method}` });
    const connection = this.newConnection();
    await until('the first RPC to be answered', async () => {
      const answer = await connection.send(connection.get(path));
      return answer.status === 200 && answer.json().success === true;
    });
    connection.close();
  }

  /** Says that the session is alive and waits until the hub agrees. */
  async activate(socket, session) {
    this.keepAlive(socket, session);
    const connection = this.newConnection();
    await until('the session to be active', async () => {
      const answer = await connection.send(connection.get(`/api/sessions/${session.id}`));
      return expectOk(answer, 'GET session').json().session.active;
    });
    connection.close();
  }

  keepAlive(socket, session) {
    sayAlive(socket, session);
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

  /** Every message of a session in ascending order, over REST. */
  async readBack(session) {
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

/** The sides to measure: the floor first, the hub when there is one. */
export function sidesOf({ floor, hub }) {
  return [new Floor(floor), ...(hub ? [new Hub(hub)] : [])];
}
