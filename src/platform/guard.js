// What a panic costs is decided here: a wasm instance that panicked is lost as a whole, with all promises that it was to
// settle. Whoever waits for one of them is answered from here instead.

import { pairs } from './glue.js';

/** Ends what wasm has not finished, for the case that it never will: one function for each. */
const unfinished = new Set();

/** Whether an instance was lost. */
let interrupted = false;

/** What is answered to whoever asked a wasm instance that was lost: the body, as the hub words it. */
let interruption = '';

/** A wasm instance begins: what is to be said should it be lost. */
export function begin(body) {
  interruption = body;
}

/**
 * The wasm instance is lost, to a panic or to what else ended it: no promise of it will ever settle. The mark is the one
 * that the `worker` crate's own frame looks at before each event, and has a new instance made.
 * @param {WebSocket | undefined} socket whose frame was being worked on at that moment
 */
export function interrupt(socket) {
  globalThis.__worker_init_state.criticalError = true;
  interrupted = true;
  if (socket !== undefined) dismiss(socket);
  for (const end of [...unfinished]) {
    try {
      end();
    } catch {
      // Whoever waited is gone; the others are to hear of it all the same.
    }
  }
}

/**
 * Whether an instance was lost before this one, and with it objects whose sockets are still there. It says so to every object
 * from then on: what that costs them is little, and there should be no panic.
 */
export function wasInterrupted() {
  return interrupted;
}

/** What comes of work whose instance was lost. */
const LOST = Symbol('lost');

/** @returns {Promise<unknown>} what comes of the work, or of `instead` when the instance is lost before */
function orElse(work, instead) {
  const outcome = new Promise((resolve, reject) => {
    const finish = (settle) => (value) => {
      unfinished.delete(end);
      settle(value);
    };
    const end = () => finish(resolve)(LOST);
    unfinished.add(end);
    work.then(finish(resolve), finish(reject));
  });
  // Behind a promise, because the instance may be lost in another request: `instead` has to run in its own.
  return outcome.then((value) => (value === LOST ? instead() : value));
}

/**
 * A request to the worker, which is answered whatever comes.
 * @param {string} more headers of an answer from here, besides its own: names and values in turn, a line each
 */
export function answered(more, work) {
  return orElse(work, () => {
    const headers = new Headers(pairs(more));
    headers.set('content-type', 'application/json');
    headers.set('cache-control', 'no-store');
    headers.set('x-content-type-options', 'nosniff');
    headers.set('retry-after', '1');
    return new Response(interruption, { status: 503, headers });
  });
}

/** A request to the object; the worker, which may run elsewhere, answers in place of a lost instance. */
export function carriedOut(work) {
  return orElse(work, () => {
    throw new Error('The hub was interrupted');
  });
}

/** What a socket brought. Nobody will acknowledge it after the instance, so the client has to come back and send it again. */
export function heard(work, socket) {
  return orElse(work, () => dismiss(socket));
}

/**
 * What an object does beside its events: writing, and telling it when it is written. Should the instance be lost before,
 * nobody could say who heard of it; so everybody comes back and asks.
 */
export class Task {
  constructor(state) {
    const done = new Promise((resolve) => {
      this.done = resolve;
    });
    orElse(done, () => state.getWebSockets().forEach(dismiss));
  }
}

/** Closes a socket so that its client comes back. */
function dismiss(socket) {
  try {
    socket.close(1012, 'The hub was interrupted, please reconnect');
  } catch {
    // It is closed already.
  }
}
