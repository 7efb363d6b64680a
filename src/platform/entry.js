// The worker's entry module: the fetch handler and the Durable Object class, which delegate to the wasm instance. After a
// panic (`guard.js` marks it) the next event creates a new instance and a new object.

import { WorkerEntrypoint } from 'cloudflare:workers';
import * as hub from 'hub-bindings';

Error.stackTraceLimit = 100;

// The runtime's own `queueMicrotask` wraps each callback in a new function, which takes a fifth of the CPU time of an RPC. This
// promise belongs to no request, so any request may use it. If a callback panics, the abort handler runs before the promise rejects.
const resolved = Promise.resolve();
globalThis.queueMicrotask = (callback) => void resolved.then(callback);

/**
 * `criticalError`: the instance must be replaced. `instanceId`: the id of the current instance. `interrupted`: returns the
 * response to the request in which the last instance was lost.
 */
const init = hub.__worker_init_state();

/** Creates a new wasm instance if the last one was lost. */
function replaceLostInstance() {
  if (!init.criticalError) return;
  console.log('The wasm instance was lost. A new one starts.');
  hub.__wbg_reset_state();
  init.criticalError = false;
}

export default class extends WorkerEntrypoint {
  fetch(request) {
    replaceLostInstance();
    try {
      return hub.fetch(request, this.env, this.ctx);
    } catch (error) {
      if (!init.criticalError) throw error;
      return init.interrupted();
    }
  }
}

/** The last instance of each object, by the object's id. @type {Map<string, WeakRef<NamespaceHub>>} */
const instances = new Map();
const collected = new FinalizationRegistry((id) => instances.get(id)?.deref() ?? instances.delete(id));

export class NamespaceHub {
  #arguments;
  #object;
  #instanceId;

  constructor(...args) {
    // The runtime answers these messages without waking the object. Web clients send them to check their connection.
    args[0].setWebSocketAutoResponse(new WebSocketRequestResponsePair('probe', '{"type":"probe"}'));
    this.#arguments = args;
    const id = args[0].id.toString();
    const evicted = instances.get(id)?.deref();
    instances.set(id, new WeakRef(this));
    collected.register(this, id);
    replaceLostInstance();
    // Garbage collection would free the wasm memory late or never, because it runs only when JavaScript needs memory.
    if (evicted) evicted.#free();
    this.#current();
  }

  /** Frees the memory of the object, which has been evicted. */
  #free() {
    const object = this.#instanceId === init.instanceId ? this.#object : undefined;
    this.#instanceId = undefined;
    object?.free();
  }

  /** Returns the object in the current wasm instance. */
  #current() {
    replaceLostInstance();
    if (this.#instanceId !== init.instanceId) {
      this.#object = new hub.NamespaceHub(...this.#arguments);
      this.#instanceId = init.instanceId;
    }
    return this.#object;
  }

  fetch(request) {
    return this.#current().fetch(request);
  }

  alarm() {
    return this.#current().alarm();
  }

  webSocketMessage(socket, frame) {
    return this.#current().webSocketMessage(socket, frame);
  }

  webSocketClose(socket) {
    return this.#current().webSocketClose(socket);
  }

  webSocketError(socket) {
    return this.#current().webSocketError(socket);
  }
}
