// The built hub with injected panics. Replaces the entry module.
//
// A panic ends the wasm code with an `unreachable` instruction, which throws a WebAssembly.RuntimeError through all wasm
// frames without dropping anything. An import that throws has the same effect. So a clock that throws simulates a panic
// wherever the hub reads the time, and the tests run the unmodified wasm.

import { DurableObject } from 'cloudflare:workers';
import HubWorker, { NamespaceHub as HubObject } from './index.js';

const Clock = globalThis.Date;
let panicsOnClockRead = false;

globalThis.Date = class extends Clock {
  static now() {
    if (panicsOnClockRead) {
      panicsOnClockRead = false;
      throw new WebAssembly.RuntimeError('unreachable');
    }
    return Clock.now();
  }
};

/** Makes the hub panic when it next reads the time. */
function panicOnNextClockRead() {
  panicsOnClockRead = true;
}

/** Makes the constructor of the next response throw, which the `worker` crate unwraps: a panic of Rust. */
function panicOnNextResponse() {
  const { Response } = globalThis;
  globalThis.Response = class {
    constructor() {
      globalThis.Response = Response;
      throw new Error('The response cannot be created');
    }
  };
}

/** Makes the hub panic when it next sets a timer: an import that throws. */
function panicOnNextTimer() {
  const { setTimeout } = globalThis;
  globalThis.setTimeout = () => {
    globalThis.setTimeout = setTimeout;
    throw new WebAssembly.RuntimeError('unreachable');
  };
}

/** Makes a method of the worker's side of the next socket throw once. */
function failOnNextSocket(method) {
  const { WebSocketPair } = globalThis;
  const construct = () => {
    globalThis.WebSocketPair = WebSocketPair;
    const pair = new WebSocketPair();
    pair[1][method] = () => {
      delete pair[1][method];
      throw new Error(`The platform fails at ${method}`);
    };
    return pair;
  };
  globalThis.WebSocketPair = new Proxy(WebSocketPair, { construct });
}

/** Whether to make the hub panic after the next batch. */
let panicsAfterCommit = false;

function trapBatches(database) {
  const proto = Object.getPrototypeOf(database);
  if (Object.hasOwn(proto, 'isTrapped')) return;
  const { batch } = proto;
  proto.isTrapped = true;
  proto.batch = async function trapped(statements) {
    const results = await batch.call(this, statements);
    if (panicsAfterCommit) panicOnNextClockRead();
    panicsAfterCommit = false;
    return results;
  };
}

/** The trap for the next request to the object. The worker does not forward the request's headers. */
let nextTrap = null;

export default {
  fetch(request, env, context) {
    nextTrap = request.headers.get('x-trap');
    if (nextTrap === 'worker') panicOnNextClockRead();
    if (nextTrap === 'response') panicOnNextResponse();
    if (nextTrap?.startsWith('socket.')) failOnNextSocket(nextTrap.slice('socket.'.length));
    return new HubWorker(context, env).fetch(request);
  },
};

export class NamespaceHub extends DurableObject {
  constructor(state, env) {
    super(state, env);
    trapBatches(env.DB);
    const { acceptWebSocket } = state;
    state.acceptWebSocket = (socket) => {
      if (this.refusesSockets) throw new Error('only 32768 websockets can be accepted on a single Durable Object instance');
      return acceptWebSocket.call(state, socket);
    };
    const { sql } = state.storage;
    const exec = sql.exec.bind(sql);
    sql.exec = (query, ...values) => {
      if (this.refusesWrites && query.startsWith('INSERT')) throw new Error('database or disk is full: SQLITE_FULL');
      return exec(query, ...values);
    };
    this.hub = new HubObject(state, env);
  }

  fetch(request) {
    const trap = nextTrap;
    nextTrap = null;
    if (trap === 'object') panicOnNextClockRead();
    if (trap === 'object-response') panicOnNextResponse();
    if (trap === 'commit') panicsAfterCommit = true;
    this.refusesSockets = trap === 'socket';
    this.refusesWrites = trap === 'storage';
    return this.hub.fetch(request);
  }

  webSocketMessage(socket, message) {
    if (message.includes('"trap"')) panicOnNextClockRead();
    if (message.includes('"trap-timer"')) panicOnNextTimer();
    return this.hub.webSocketMessage(socket, message);
  }

  webSocketClose(...args) {
    return this.hub.webSocketClose(...args);
  }

  webSocketError(...args) {
    return this.hub.webSocketError(...args);
  }

  alarm() {
    return this.hub.alarm();
  }
}
