// Requests of the commands to the hub's REST interface.

import { REACH_ADVICE } from '../../../packages/cli-kit/src/hub-client.mjs';
import { UserError } from '../../lib/errors.mjs';
import { parseJson } from '../../lib/json.mjs';

const TIMEOUT_MS = 15_000;

/**
 * Sends a request, and returns the body of the answer.
 * @param {{hub: string, token: string}} access `hub`: the address without a trailing slash
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 * @throws {UserError} if the hub cannot be reached, does not answer in time, or answers with an error
 */
export async function requestHub({ hub, token }, method, path, body) {
  const headers = { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) };
  const options = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS) };
  /** @type {Response} */
  let response;
  let text;
  try {
    response = await fetch(`${hub}${path}`, options);
    text = await response.text();
  } catch (error) {
    if (error.name === 'TimeoutError') throw new UserError(`The hub at ${hub} did not answer within ${TIMEOUT_MS / 1000} s.`);
    throw new UserError(`Cannot reach the hub at ${hub} (${error.cause?.code ?? error.cause?.message ?? error.message}).`, REACH_ADVICE);
  }
  const answer = parseJson(text);
  if (response.ok && answer !== null) return answer;
  // A proxy answers 5xx in place of the hub.
  if (answer === null && response.status < 500)
    throw new UserError(`${hub} does not answer as a hub (status ${response.status}).`, 'Check the address.');
  const id = response.headers.get('x-request-id');
  throw new UserError(
    `The hub answered ${response.status}: ${answer?.error ?? response.statusText}`,
    response.status === 401
      ? 'Give another token with --token-file FILE, or set CLI_API_TOKEN.'
      : id !== null && response.status >= 500
        ? `The log of the hub has more about the request ${id}.`
        : undefined,
  );
}
