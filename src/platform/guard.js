// Recovery from the loss of the wasm instance after a panic or trap. The promises of the lost instance never settle, so each
// gets a fallback here.

import { parseHeaders } from './glue.js';

/** For each pending promise of the instance, the function that settles it with `LOST`. */
const pending = new Set();

/** Whether an instance was lost. */
let interrupted = false;

/** The body of the 503 responses. */
let interruptedBody = '';

export function startInstance(body) {
  interruptedBody = body;
}

/**
 * Called when the instance is lost. The entry module creates a new instance when `criticalError` is set.
 * @param {WebSocket | undefined} socket whose frame was being processed synchronously
 */
export function instanceLost(socket) {
  globalThis.__worker_init_state.criticalError = true;
  interrupted = true;
  if (socket !== undefined) requestReconnect(socket);
  for (const settle of [...pending]) {
    try {
      settle();
    } catch {
      // The others must be settled nevertheless.
    }
  }
}

/** Whether an instance was lost before this one. It stays true for all objects that start later. */
export function wasInterrupted() {
  return interrupted;
}

const LOST = Symbol('lost');

/** Returns the result of `work`, or of `fallback` if the instance is lost before `work` settles. */
function guard(work, fallback) {
  const result = new Promise((resolve, reject) => {
    const settled = (settle) => (value) => {
      pending.delete(lose);
      settle(value);
    };
    const lose = () => settled(resolve)(LOST);
    pending.add(lose);
    work.then(settled(resolve), settled(reject));
  });
  // The loss may happen in the context of another request; after `then`, `fallback` runs in the context of this one.
  return result.then((value) => (value === LOST ? fallback() : value));
}

/**
 * Guards a request to the worker: responds with 503 when the instance is lost.
 * @param {string} extraHeaders of the 503
 */
export function guardWorker(extraHeaders, work) {
  return guard(work, () => {
    const headers = new Headers(parseHeaders(extraHeaders));
    headers.set('content-type', 'application/json');
    headers.set('cache-control', 'no-store');
    headers.set('x-content-type-options', 'nosniff');
    headers.set('retry-after', '1');
    return new Response(interruptedBody, { status: 503, headers });
  });
}

/** Guards a request to the object: rejects when the instance is lost; the worker responds. */
export function guardObject(work) {
  return guard(work, () => {
    throw new Error('The hub was interrupted');
  });
}

/** Guards the processing of a frame: the client must reconnect and send it again, because it gets no acknowledgement. */
export function guardSocket(work, socket) {
  return guard(work, () => requestReconnect(socket));
}

/** Guards a background task of an object, such as a write. All its clients must reconnect: each may wait for the task. */
export class BackgroundTask {
  constructor(state) {
    const done = new Promise((resolve) => {
      this.done = resolve;
    });
    guard(done, () => state.getWebSockets().forEach(requestReconnect));
  }
}

/** Closes a socket with a code after which clients reconnect. */
function requestReconnect(socket) {
  try {
    socket.close(1012, 'The hub was interrupted. Reconnect.');
  } catch {
    // It is already closed.
  }
}
