// Requests of the worker to the objects of the namespaces. They need no wasm, so the loss of an instance does not affect them.

import { withHeaders } from './timing.js';
import { interrupted, unavailable } from './unavailable.js';

/** The objects of the namespaces. */
export class Objects {
  #objects;
  #options;
  #timedOutBody;
  /** The id of the namespace of the last request: computing one takes a hash. */
  #last = { namespace: undefined, id: undefined };

  /**
   * Throws if the runtime does not support jurisdictions.
   * @param {string} jurisdiction to which the objects are restricted; empty for none
   * @param {string} location near which new objects are created; empty: near the first request
   * @param {string} timedOutBody of the 503 response when an object does not answer in time
   */
  constructor(binding, jurisdiction, location, timedOutBody) {
    this.#objects = jurisdiction === '' ? binding : binding.jurisdiction(jurisdiction);
    this.#options = location === '' ? {} : { locationHint: location };
    this.#timedOutBody = timedOutBody;
  }

  /** Whether the object with this state is the one of a namespace. */
  contains(state, namespace) {
    return this.#idOf(namespace).equals(state.id);
  }

  #idOf(namespace) {
    if (this.#last.namespace !== namespace) this.#last = { namespace, id: this.#objects.idFromName(namespace) };
    return this.#last.id;
  }

  /**
   * Forwards a request to the object of a namespace.
   * @param {string} socket the `SocketKind` of a WebSocket; empty for a plain request
   * @param {string} expiresAt the expiry of the WebSocket's token; empty for none
   * @returns {Promise<Response>} a 503 response if the object fails, or does not answer within `timeoutMs`
   */
  async forward(namespace, socket, expiresAt, request, timeoutMs) {
    let timer;
    try {
      const object = this.#objects.get(this.#idOf(namespace), this.#options);
      const headers = socket === '' ? plainHeaders(namespace, request) : socketHeaders(namespace, socket, expiresAt, request);
      const response = object.fetch(request, { headers });
      return await new Promise((resolve, reject) => {
        timer = setTimeout(() => resolve(unavailable(this.#timedOutBody)), timeoutMs);
        response.then(resolve, reject);
      });
    } catch (error) {
      console.error('the object of a namespace failed:', error);
      return interrupted();
    } finally {
      clearTimeout(timer);
    }
  }

  /** Forwards a plain request, and adds headers to the response, as `withHeaders` does. */
  async respond(namespace, request, timeoutMs, headers, startedAt) {
    return withHeaders(await this.forward(namespace, '', '', request, timeoutMs), headers, startedAt);
  }
}

/** Only the headers that the object reads, because each one is copied twice. */
function plainHeaders(namespace, request) {
  const length = request.headers.get('content-length');
  return length === null ? { 'hub-namespace': namespace } : { 'hub-namespace': namespace, 'content-length': length };
}

/** All headers of the client, except that `hub-*` headers are overwritten. */
function socketHeaders(namespace, socket, expiresAt, request) {
  const headers = new Headers(request.headers);
  headers.set('hub-namespace', namespace);
  headers.set('hub-socket', socket);
  headers.set('hub-expires-at', expiresAt);
  headers.set('upgrade', 'websocket');
  return headers;
}
