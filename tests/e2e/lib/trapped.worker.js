// The built hub with injected panics. Replaces the entry module.
//
// A panic ends the wasm code with an `unreachable` instruction, which throws a WebAssembly.RuntimeError through all wasm
// frames without dropping anything. An import that throws has the same effect. So a clock that throws simulates a panic
// wherever the hub reads the time, and the tests run the unmodified wasm.

import { DurableObject } from 'cloudflare:workers';
import HubWorker, { NamespaceHub as HubObject } from './index.js';

const Clock = globalThis.Date;
let isArmed = false;

globalThis.Date = class extends Clock {
  static now() {
    if (isArmed) {
      isArmed = false;
      throw new WebAssembly.RuntimeError('unreachable');
    }
    return Clock.now();
  }
};

/** Makes the hub panic when it next reads the time. */
function arm() {
  isArmed = true;
}

/** Makes the constructor of the next response throw, which the `worker` crate unwraps: a panic of Rust. */
function breakResponse() {
  const { Response } = globalThis;
  globalThis.Response = class {
    constructor() {
      globalThis.Response = Response;
      throw new Error('The response cannot be created');
    }
  };
}

/** Makes the hub panic when it next sets a timer: an import that throws. */
function breakNextTimer() {
  const { setTimeout } = globalThis;
  globalThis.setTimeout = () => {
    globalThis.setTimeout = setTimeout;
    throw new WebAssembly.RuntimeError('unreachable');
  };
}

/** Whether to make the hub panic after the next batch. */
let panicAfterCommit = false;

function armAfterCommits(database) {
  const proto = Object.getPrototypeOf(database);
  if (Object.hasOwn(proto, 'isTrapped')) return;
  const { batch } = proto;
  proto.isTrapped = true;
  proto.batch = async function trapped(statements) {
    const results = await batch.call(this, statements);
    if (panicAfterCommit) arm();
    panicAfterCommit = false;
    return results;
  };
}

/** The trap for the next request to the object. The worker does not forward the request's headers. */
let trap = null;

export default {
  fetch(request, env, context) {
    trap = request.headers.get('x-trap');
    if (trap === 'worker') arm();
    if (trap === 'response') breakResponse();
    return new HubWorker(context, env).fetch(request);
  },
};

export class NamespaceHub extends DurableObject {
  constructor(state, env) {
    super(state, env);
    armAfterCommits(env.DB);
    const { acceptWebSocket } = state;
    state.acceptWebSocket = (socket) => {
      if (this.refusesSockets) throw new Error('only 32768 websockets can be accepted on a single Durable Object instance');
      return acceptWebSocket.call(state, socket);
    };
    this.hub = new HubObject(state, env);
  }

  fetch(request) {
    const ownTrap = trap;
    trap = null;
    if (ownTrap === 'object') arm();
    if (ownTrap === 'object-response') breakResponse();
    if (ownTrap === 'commit') panicAfterCommit = true;
    this.refusesSockets = ownTrap === 'socket';
    return this.hub.fetch(request);
  }

  webSocketMessage(socket, message) {
    if (message.includes('"trap"')) arm();
    if (message.includes('"trap-timer"')) breakNextTimer();
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
