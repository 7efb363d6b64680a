// The worker's entry module: the fetch handler and the Durable Object class, which delegate to the wasm instance. After a
// panic (`guard.js` marks it) the next event creates a new instance and a new object.

import { WorkerEntrypoint } from 'cloudflare:workers';
import * as hub from 'hub-bindings';
import { logLine } from './log.js';
import * as requests from './requests.js';

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
  logLine('error', 'instance-lost', '');
  hub.__wbg_reset_state();
  init.criticalError = false;
}

export default class extends WorkerEntrypoint {
  fetch(request) {
    replaceLostInstance();
    const incoming = requests.begin(request);
    const end = (response) => requests.end(incoming, response, this.env, this.ctx);
    try {
      return hub.fetch(incoming, this.env, this.ctx).then(end);
    } catch (error) {
      if (!init.criticalError) throw error;
      return end(init.interrupted());
    }
  }
}

/** The last instance of each object, by the object's id. @type {Map<string, WeakRef<NamespaceHub>>} */
const instances = new Map();
const collected = new FinalizationRegistry((id) => instances.get(id)?.deref() ?? instances.delete(id));

/** The events of this time are one data point of Analytics Engine. Shorter than the time without events after which an object leaves memory. */
const REPORT_DELAY_MS = 5_000;

export class NamespaceHub {
  #arguments;
  #object;
  #instanceId;
  #willReport = false;

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
    requests.objects.loaded += 1;
    if (evicted) requests.objects.evicted += 1;
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

  /** Returns the object for an event, whose metrics are reported soon if there is a dataset. */
  #currentForEvent() {
    const [, env] = this.#arguments;
    if (env.METRICS !== undefined && !this.#willReport) {
      this.#willReport = true;
      setTimeout(() => {
        this.#willReport = false;
        this.#current().reportMetrics();
        requests.reportObjects(env);
      }, REPORT_DELAY_MS);
    }
    return this.#current();
  }

  fetch(request) {
    return this.#currentForEvent().fetch(request);
  }

  alarm() {
    return this.#currentForEvent().alarm();
  }

  webSocketMessage(socket, frame) {
    return this.#currentForEvent().webSocketMessage(socket, frame);
  }

  webSocketClose(socket) {
    return this.#current().webSocketClose(socket);
  }

  webSocketError(socket) {
    return this.#current().webSocketError(socket);
  }
}
