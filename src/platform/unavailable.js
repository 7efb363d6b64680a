// The 503 responses that JavaScript creates itself, because a wasm instance was lost or an object did not answer.

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
