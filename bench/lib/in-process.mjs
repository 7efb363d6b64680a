/**
 * A built hub in this process, on stand-ins for what the runtime gives it: just enough of D1, of the object's state, of
 * WebSockets and requests for the work that `bench/cpu.mjs` times. SQL runs in Node's own SQLite, in memory.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { ROOT } from './packages.mjs';

const NAMESPACE = 'bench';
const TOKEN = 'a-token-of-the-bench-and-of-nobody-else';
const TEXT = 'A sentence of an agent that explains what it found. '.repeat(10);

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'cloudflare:workers') return { url: 'hub:workers', format: 'module', shortCircuit: true };
    if (specifier.endsWith('.wasm')) return { url: new URL(specifier, context.parentURL).href, format: 'module', shortCircuit: true };
    const found = next(specifier, context);
    return found.url.startsWith('file:') ? { ...found, format: found.url.endsWith('/index.js') ? 'module' : found.format } : found;
  },
  load(url, context, next) {
    const source = (text) => ({ format: 'module', shortCircuit: true, source: text });
    if (url === 'hub:workers') return source('export class WorkerEntrypoint {}');
    if (!url.endsWith('.wasm')) return next(url, context);
    const file = JSON.stringify(fileURLToPath(url));
    return source(`import { readFileSync } from 'node:fs'; export default new WebAssembly.Module(readFileSync(${file}));`);
  },
});

// Node's answers know neither status 101 nor a WebSocket.
globalThis.Response = class extends Response {
  constructor(body, init = {}) {
    super(body, init.status === 101 ? {} : init);
    this.webSocket = init.webSocket;
  }
};

class Socket {
  send(text) {
    this.heard?.(text);
  }
  serializeAttachment() {}
  deserializeAttachment() {
    return null;
  }
  close() {}
}

globalThis.WebSocketPair = class {
  constructor() {
    this[0] = new Socket();
    this[1] = new Socket();
  }
};

// The `worker` crate asks for this name.
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

class State {
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

  acceptWebSocket(socket) {
    this.#sockets.push(socket);
  }
  getWebSockets() {
    return this.#sockets;
  }
  waitUntil() {}
}

/** A request whose body can be read as the runtime has it read. */
class Asked {
  constructor(method, url, headers, text) {
    Object.assign(this, { method, url, text });
    this.headers = new Headers(headers);
    const bytes = text === undefined ? undefined : new TextEncoder().encode(text);
    this.body = bytes ? { getReader: () => reader(bytes) } : null;
  }
}

function reader(bytes) {
  let at = 0;
  return {
    cancel: async () => {},
    async readAtLeast(_, room) {
      const part = bytes.subarray(at, at + room.length);
      room.set(part);
      at += part.length;
      return { value: room.subarray(0, part.length), done: part.length === 0 };
    },
  };
}

/** The object, the worker in front of it, and a CLI that serves one method for one session. */
async function hub(build) {
  const { default: Worker, NamespaceHub } = await import(pathToFileURL(join(build, 'index.js')).href);
  const state = new State();
  const env = { DB: new D1Database(), CLI_API_TOKEN: TOKEN, JWT_SECRET: TOKEN, AUTH_RATE_LIMIT: { limit: async () => ({ success: true }) } };
  const object = new NamespaceHub(state, env);
  const fetch = (request, { headers }) => object.fetch(new Asked(request.method, request.url, headers, request.text));
  env.HUB = { idFromName: (name) => name, get: () => ({ fetch }) };
  const worker = Object.assign(new Worker(), { env, ctx: { waitUntil: () => {} } });

  const ask = async (method, path, body) => {
    const text = body && JSON.stringify(body);
    const headers = { authorization: `Bearer ${TOKEN}:${NAMESPACE}`, ...(text && { 'content-length': String(Buffer.byteLength(text)) }) };
    const answer = await worker.fetch(new Asked(method, `http://hub.test${path}`, headers, text));
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };

  const connect = async (session) => {
    await object.fetch(new Asked('GET', 'http://hub.test/socket.io/', { 'hub-namespace': NAMESPACE, 'hub-socket': 'authenticated-cli' }));
    const socket = state.getWebSockets().at(-1);
    const waiting = new Map();
    socket.heard = (frame) => {
      const [, kind, id] = /^4([23])\/cli,(\d+)/.exec(frame) ?? [];
      if (kind === '3') {
        waiting.get(id)?.();
        waiting.delete(id);
      } else if (kind === '2') {
        queueMicrotask(() => object.webSocketMessage(socket, `43/cli,${id}["{\\"success\\":true,\\"skills\\":[]}"]`));
      }
    };
    let acks = 0;
    await object.webSocketMessage(socket, `40/cli,${JSON.stringify({ sessionId: session })}`);
    return async (name, payload) => {
      acks += 1;
      const answered = new Promise((resolve) => waiting.set(String(acks), resolve));
      await object.webSocketMessage(socket, `42/cli,${acks}${JSON.stringify([name, payload])}`);
      return answered;
    };
  };
  return { ask, connect };
}

/**
 * The requests that are timed, on a namespace with 50 sessions, one of them with a CLI and some history.
 * @param {string} build the folder of the build
 * @returns {Promise<Record<string, () => Promise<unknown>>>}
 */
export async function requests(build) {
  const { ask, connect } = await hub(build);
  const ids = [];
  for (let i = 0; i < 50; i += 1) {
    const answer = await ask('POST', '/cli/sessions', { tag: `t${i}`, metadata: { path: '/code', host: 'box', name: `Session ${i}` } });
    ids.push((await answer.json()).session.id);
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
    rpc: () => ask('GET', `/api/sessions/${sid}/skills`),
    ingest: () => emit('message', { sid, message: message(), localId: `l${count}` }),
    post: () => ask('POST', `/api/sessions/${sid}/messages`, { text: TEXT + (count += 1), localId: `w${count}` }),
    list: () => ask('GET', '/api/sessions'),
    show: () => ask('GET', `/api/sessions/${sid}`),
    page: () => ask('GET', `/api/sessions/${sid}/messages?limit=50`),
  };
}
