// Recovery from the loss of the wasm instance after a panic or trap: its promises would never settle, so a `Task` has a fallback.

import { withHeaders } from './timing.js';

/** The body of the response to a request that was interrupted. */
let interruptedBody = '';

/** @param {string} body of the responses of `interrupted` */
export function setInterruptedBody(body) {
  interruptedBody = body;
}

/** @param {string} body in JSON */
export function unavailable(body) {
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'retry-after': '1',
  };
  return new Response(body, { status: 503, headers });
}

/** The response to a request that was interrupted. */
export function interrupted() {
  return unavailable(interruptedBody);
}

/** The tasks of the instance that have not ended. */
const pending = new Set();

/** Whether an instance was lost. */
let wasLost = false;

/**
 * Called when the instance is lost. The entry module creates a new instance when `criticalError` is set, and returns the result
 * of `interrupted` to a request that was being routed.
 * @param {WebSocket | undefined} socket the socket whose frame was being processed synchronously
 * @param {string} headers of the 503 to the request that was being routed, alternating lines with a name and a value
 */
export function instanceLost(socket, headers) {
  const state = globalThis.__worker_init_state;
  state.criticalError = true;
  state.interrupted = () => withHeaders(interrupted(), headers);
  wasLost = true;
  if (socket !== undefined) requestReconnect(socket);
  for (const task of [...pending]) {
    try {
      task.resolve(LOST);
    } catch {
      // A failure must not prevent the other tasks from being settled.
    }
  }
}

/** Whether an instance was lost before the current instance. Stays true for all objects that start later. */
export function previousInstanceCrashed() {
  return wasLost;
}

const LOST = Symbol('lost');

/** A task of the instance. The wasm code settles its promise, or `instanceLost` does. */
class Task {
  #resolve;
  #reject;

  /** @param {() => unknown} onLoss returns the result, or throws, if the instance is lost */
  constructor(onLoss) {
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#resolve = resolve;
    this.#reject = reject;
    // The instance may be lost in the context of another request. After `then`, `onLoss` runs in the context of this request.
    this.promise = promise.then((value) => (value === LOST ? onLoss() : value));
    pending.add(this);
  }

  resolve(value) {
    pending.delete(this);
    this.#resolve(value);
  }

  reject(error) {
    pending.delete(this);
    this.#reject(error);
  }
}

/**
 * Creates the task of a request to the worker: responds with 503 if the instance is lost.
 * @param {string} headers of the 503, alternating lines with a name and a value
 */
export function workerTask(headers) {
  return new Task(() => withHeaders(interrupted(), headers));
}

/** Creates the task of a request to the object, or of its alarm. Rejects if the instance is lost: the worker then sends a 503. */
export function objectTask() {
  return new Task(() => {
    throw new Error('The hub was interrupted');
  });
}

/** Creates the task of a frame: closes the socket if the instance is lost, because the client gets no acknowledgement. */
export function frameTask(socket) {
  return new Task(() => requestReconnect(socket));
}

/** Creates a background task, such as a write: closes all sockets of the object if the instance is lost, because all may wait for it. */
export function backgroundTask(state) {
  return new Task(() => state.getWebSockets().forEach(requestReconnect));
}

/** The attachment of a closed socket: `CLOSED_ATTACHMENT` in `src/hub/core/ports.rs`. */
const CLOSED = 'closed';

/** Closes a socket with a code after which clients reconnect, unless it was closed before. */
function requestReconnect(socket) {
  try {
    if (socket.deserializeAttachment() === CLOSED) return;
    // Without this attachment, the next instance would restore the socket as open.
    socket.serializeAttachment(CLOSED);
    socket.close(1012, 'The hub was interrupted. Reconnect.');
  } catch {
    // The socket is already closed.
  }
}
