/**
 * Runs a built hub in this process, on mocks of the runtime's interfaces. The mocks have the parts of D1, Durable Object state, WebSockets
 * and requests that `bench/cpu.mjs` needs. SQL runs in Node's SQLite, in memory.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { ROOT } from './packages.mjs';

const NAMESPACE = 'bench';
/** The access token and the JWT secret, which must have at least 32 bytes. */
const TOKEN = 'access-token-and-jwt-secret-of-the-bench';
const TEXT = 'A sentence of an agent that explains what it found. '.repeat(10);

registerHooks({
  resolve(specifier, context, nextHook) {
    if (specifier === 'cloudflare:workers') return { url: 'hub:workers', format: 'module', shortCircuit: true };
    if (specifier.endsWith('.wasm')) return { url: new URL(specifier, context.parentURL).href, format: 'module', shortCircuit: true };
    const resolved = nextHook(specifier, context);
    return resolved.url.startsWith('file:')
      ? { ...resolved, format: resolved.url.endsWith('/index.js') ? 'module' : resolved.format }
      : resolved;
  },
  load(url, context, nextHook) {
    const source = (text) => ({ format: 'module', shortCircuit: true, source: text });
    if (url === 'hub:workers') return source('export class WorkerEntrypoint {}');
    if (!url.endsWith('.wasm')) return nextHook(url, context);
    const file = JSON.stringify(fileURLToPath(url));
    return source(`import { readFileSync } from 'node:fs'; export default new WebAssembly.Module(readFileSync(${file}));`);
  },
});

// Node's Response supports neither status 101 nor a WebSocket.
globalThis.Response = class extends Response {
  constructor(body, init = {}) {
    super(body, init.status === 101 ? {} : init);
    this.webSocket = init.webSocket;
  }
};

class MockSocket {
  /** @type {((text: string) => void) | undefined} */
  onSend;

  send(text) {
    this.onSend?.(text);
  }
  serializeAttachment() {}
  deserializeAttachment() {
    return null;
  }
  close() {}
}

globalThis.WebSocketPair = class {
  constructor() {
    this[0] = new MockSocket();
    this[1] = new MockSocket();
  }
};

// The `worker` crate checks this class name.
class D1Database {
  #database = new DatabaseSync(':memory:');
  #statements = new Map();

  constructor() {
    const folder = join(ROOT, 'migrations');
    for (const file of readdirSync(folder).sort()) this.#database.exec(readFileSync(join(folder, file), 'utf8'));
  }

  #rows(sql, params) {
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#database.prepare(sql)));
    return statement.all(...params);
  }

  prepare(sql) {
    return { bind: (...params) => ({ sql, params, raw: async () => this.#rows(sql, params).map(Object.values) }) };
  }

  async batch(statements) {
    return statements.map(({ sql, params }) => ({ results: this.#rows(sql, params) }));
  }
}

Object.assign(globalThis, { WebSocketRequestResponsePair: class {} });

class MockState {
  id = { toString: () => NAMESPACE };
  #sockets = [];
  #database = new DatabaseSync(':memory:');
  storage = {
    sql: {
      exec: (sql, ...params) => {
        const rows = this.#database.prepare(sql).all(...params);
        return { toArray: () => rows };
      },
    },
    setAlarm: async () => {},
    deleteAll: async () => {},
  };

  setWebSocketAutoResponse() {}
  acceptWebSocket(socket) {
    this.#sockets.push(socket);
  }
  getWebSockets() {
    return this.#sockets;
  }
  waitUntil() {}
}

/** A request whose body has the method `readAtLeast`, which the runtime's streams have and Node's streams do not have. */
class MockRequest {
  constructor(method, url, headers, text) {
    Object.assign(this, { method, url, text });
    this.headers = new Headers(headers);
    const bytes = text === undefined ? undefined : new TextEncoder().encode(text);
    this.body = bytes ? { getReader: () => readerOf(bytes) } : null;
  }
}

function readerOf(bytes) {
  let offset = 0;
  return {
    cancel: async () => {},
    async readAtLeast(_, buffer) {
      const part = bytes.subarray(offset, offset + buffer.length);
      buffer.set(part);
      offset += part.length;
      return { value: buffer.subarray(0, part.length), done: part.length === 0 };
    },
  };
}

/** Starts the worker and its Durable Object. The returned `connect` connects a CLI that answers each RPC with an empty list. */
async function startHub(build) {
  const { default: Worker, NamespaceHub } = await import(pathToFileURL(join(build, 'index.js')).href);
  const state = new MockState();
  const env = {
    DB: new D1Database(),
    CLI_API_TOKEN: TOKEN,
    JWT_SECRET: TOKEN,
    AUTH_RATE_LIMIT: { limit: async () => ({ success: true }) },
  };
  const object = new NamespaceHub(state, env);
  // The worker passes only the URL of a GET request.
  const fetch = (request, { headers }) => {
    const { method, url, text } = typeof request === 'string' ? { method: 'GET', url: request } : request;
    return object.fetch(new MockRequest(method, url, headers, text));
  };
  env.HUB = { idFromName: () => ({ equals: () => true }), get: () => ({ fetch }) };
  const worker = Object.assign(new Worker(), { env, ctx: { waitUntil: () => {} } });

  const request = async (method, path, body) => {
    const text = body && JSON.stringify(body);
    const headers = { authorization: `Bearer ${TOKEN}:${NAMESPACE}`, ...(text && { 'content-length': String(Buffer.byteLength(text)) }) };
    const response = await worker.fetch(new MockRequest(method, `http://hub.test${path}`, headers, text));
    if (response.status !== 200) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  };

  const connect = async (session) => {
    await object.fetch(
      new MockRequest('GET', 'http://hub.test/socket.io/', { 'hub-namespace': NAMESPACE, 'hub-socket': 'authenticated-cli' }),
    );
    const socket = state.getWebSockets().at(-1);
    const pendingAcks = new Map();
    socket.onSend = (frame) => {
      const [, kind, id] = /^4([23])\/cli,(\d+)/.exec(frame) ?? [];
      if (kind === '3') {
        pendingAcks.get(id)?.();
        pendingAcks.delete(id);
      } else if (kind === '2') {
        queueMicrotask(() => object.webSocketMessage(socket, `43/cli,${id}["{\\"success\\":true,\\"skills\\":[]}"]`));
      }
    };
    let lastAckId = 0;
    await object.webSocketMessage(socket, `40/cli,${JSON.stringify({ sessionId: session })}`);
    return async (name, payload) => {
      lastAckId += 1;
      const acknowledged = new Promise((resolve) => pendingAcks.set(String(lastAckId), resolve));
      await object.webSocketMessage(socket, `42/cli,${lastAckId}${JSON.stringify([name, payload])}`);
      return acknowledged;
    };
  };
  return { request, connect };
}

/**
 * Prepares the requests to measure, in a namespace with 50 sessions. One session has a CLI and messages.
 * @param {string} build the folder of the build
 * @returns {Promise<Record<string, () => Promise<unknown>>>}
 */
export async function prepareRequests(build) {
  const { request, connect } = await startHub(build);
  const ids = [];
  for (let i = 0; i < 50; i += 1) {
    const response = await request('POST', '/cli/sessions', {
      tag: `t${i}`,
      metadata: { path: '/code', host: 'box', name: `Session ${i}` },
    });
    ids.push((await response.json()).session.id);
  }
  const [sid] = ids;
  const emit = await connect(sid);
  await emit('session-alive', { sid, time: Date.now() });
  await emit('rpc-register', { method: 'listSkills' });
  let count = 0;
  const message = () => ({ role: 'agent', content: { type: 'output', data: { type: 'assistant', text: TEXT + (count += 1) } } });
  for (let i = 0; i < 60; i += 1) await emit('message', { sid, message: message() });
  return {
    alive: () => emit('session-alive', { sid, time: Date.now(), thinking: false, mode: 'remote' }),
    rpc: () => request('GET', `/api/sessions/${sid}/skills`),
    ingest: () => emit('message', { sid, message: message(), localId: `l${count}` }),
    post: () => request('POST', `/api/sessions/${sid}/messages`, { text: TEXT + (count += 1), localId: `w${count}` }),
    list: () => request('GET', '/api/sessions'),
    show: () => request('GET', `/api/sessions/${sid}`),
    page: () => request('GET', `/api/sessions/${sid}/messages?limit=50`),
  };
}
