// Requests of the worker to the objects of the namespaces. These functions need no wasm, so the loss of an instance does not affect them.

import { interrupted, unavailable } from './guard.js';
import { logError } from './log.js';
import { withHeaders } from './timing.js';

/** The objects of the namespaces. */
export class Objects {
  #objects;
  #options;
  #timedOutBody;
  /** The result of `#target` for the last namespace. */
  #lastTarget = { namespace: undefined, id: undefined, headers: undefined };

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

  /** Whether the Durable Object with this state is the object of a namespace. */
  contains(state, namespace) {
    return this.#target(namespace).id.equals(state.id);
  }

  /** Returns the id of a namespace's object, and the headers of a request without a body. */
  #target(namespace) {
    if (this.#lastTarget.namespace !== namespace) {
      const headers = new Headers({ 'hub-namespace': namespace });
      this.#lastTarget = { namespace, id: this.#objects.idFromName(namespace), headers };
    }
    return this.#lastTarget;
  }

  /**
   * Forwards a WebSocket request to the object of a namespace. Records the namespace in `incoming` (`requests.js`).
   * @param {string} socket the `SocketKind`
   * @param {string} expiresAt the expiry of the token; empty for a token that does not expire
   * @param {string} credential of the token; may be empty
   * @returns {Promise<Response>} a 503 response if the object fails, or does not answer within `timeoutMs`
   */
  connect(namespace, socket, expiresAt, credential, incoming, timeoutMs) {
    const { request } = incoming;
    incoming.namespace = namespace;
    const headers = socketHeaders(namespace, socket, expiresAt, credential, request);
    return this.#fetch(namespace, request.body === null ? incoming.url : request, headers, timeoutMs);
  }

  /**
   * Forwards a request to the object of a namespace. Records the namespace, as `connect` does.
   * @param {string} credential of the token, and a space and the id of its secret if it has one; empty if the object needs neither
   * @param {string} addedHeaders of the response (`withHeaders`)
   * @param {boolean} hasTiming whether the response has `Server-Timing`
   * @returns {Promise<Response>} as for `connect`
   */
  forward(namespace, credential, incoming, timeoutMs, addedHeaders, hasTiming) {
    const { request } = incoming;
    incoming.namespace = namespace;
    const addHeaders = (response) => withHeaders(response, addedHeaders, hasTiming ? incoming.startedAt : undefined);
    // The body of a GET request is forwarded as well. The object discards it, so that a client that is still sending gets the response.
    if (incoming.method === 'GET' && request.body === null) {
      const { headers } = credential === '' ? this.#target(namespace) : { headers: withCredential(namespace, credential) };
      return this.#fetch(namespace, incoming.url, headers, timeoutMs, addHeaders);
    }
    return this.#fetch(namespace, request, bodyHeaders(namespace, credential, request), timeoutMs, addHeaders);
  }

  /** @param {(response: Response) => Response} convert the response of the object, or the 503 */
  #fetch(namespace, request, headers, timeoutMs, convert = (response) => response) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(convert(unavailable(this.#timedOutBody))), timeoutMs);
      const settle = (response) => {
        clearTimeout(timer);
        resolve(convert(response));
      };
      const object = this.#objects.get(this.#target(namespace).id, this.#options);
      object.fetch(request, { headers }).then(settle, (error) => {
        logError('object-failed', error);
        settle(interrupted());
      });
    });
  }
}

/** Returns only the headers that the object reads, because each header is copied twice. */
function bodyHeaders(namespace, credential, request) {
  const headers = withCredential(namespace, credential);
  const length = request.headers.get('content-length');
  return length === null ? headers : { ...headers, 'content-length': length };
}

function withCredential(namespace, credentialAndSecret) {
  if (credentialAndSecret === '') return { 'hub-namespace': namespace };
  const [credential, secret] = credentialAndSecret.split(' ');
  const headers = { 'hub-namespace': namespace, 'hub-credential': credential };
  return secret === undefined ? headers : { ...headers, 'hub-secret': secret };
}

/** Returns only the headers that the object reads, and the upgrade, which the runtime requires. */
function socketHeaders(namespace, socket, expiresAt, credential, request) {
  const target = withCredential(namespace, credential);
  const headers = { ...target, upgrade: 'websocket', 'hub-socket': socket, 'hub-expires-at': expiresAt };
  const lastEventId = request.headers.get('last-event-id');
  return lastEventId === null ? headers : { ...headers, 'last-event-id': lastEventId };
}
