// The built hub with a trap in it, for tests of what a panic costs. It runs inside of the runtime, in front of the hub.
//
// A panic ends the wasm code in an `unreachable` instruction: a WebAssembly.RuntimeError that passes through all frames of
// wasm and drops nothing on its way. The same comes of an import that throws one. So a clock that throws stands for a
// panic wherever the hub asks for the time, and what is tested is the wasm that is deployed, bit for bit.

import { DurableObject } from 'cloudflare:workers';
import HubWorker, { NamespaceHub as HubObject } from './index.js';

const Clock = globalThis.Date;
let isSet = false;

globalThis.Date = class extends Clock {
  static now() {
    if (isSet) {
      isSet = false;
      throw new WebAssembly.RuntimeError('unreachable');
    }
    return Clock.now();
  }
};

/** The next time that the hub asks for the time it panics. */
function set() {
  isSet = true;
}

/** The next response cannot be made. The `worker` crate takes this for impossible and unwraps it: a panic as Rust makes it. */
function breakResponse() {
  const { Response } = globalThis;
  globalThis.Response = class {
    constructor() {
      globalThis.Response = Response;
      throw new Error('No response is made');
    }
  };
}

/** A batch of this object's that is on its way is to have a panic behind it. */
let isCommitting = false;

function setBehindCommits(database) {
  const proto = Object.getPrototypeOf(database);
  if (Object.hasOwn(proto, 'isTrapped')) return;
  const { batch } = proto;
  proto.isTrapped = true;
  proto.batch = async function trapped(statements) {
    const results = await batch.call(this, statements);
    if (isCommitting) set();
    isCommitting = false;
    return results;
  };
}

/** The trap for the next request that reaches the object: of a request's own headers the worker hands on none. */
let trap = null;

export default {
  fetch(request, env, context) {
    trap = request.headers.get('x-trap');
    if (trap === 'worker') set();
    if (trap === 'response') breakResponse();
    return new HubWorker(context, env).fetch(request);
  },
};

export class NamespaceHub extends DurableObject {
  constructor(state, env) {
    super(state, env);
    setBehindCommits(env.DB);
    const { acceptWebSocket } = state;
    state.acceptWebSocket = (socket) => {
      // Another panic as Rust makes it.
      if (this.refuses) throw new Error('No socket is taken');
      return acceptWebSocket.call(state, socket);
    };
    this.hub = new HubObject(state, env);
  }

  fetch(request) {
    const meant = trap;
    trap = null;
    if (meant === 'object') set();
    if (meant === 'commit') isCommitting = true;
    this.refuses = meant === 'socket';
    return this.hub.fetch(request);
  }

  webSocketMessage(socket, message) {
    if (message.includes('"trap"')) set();
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
