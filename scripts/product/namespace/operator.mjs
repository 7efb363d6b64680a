// Requests of the operator to `/api/namespaces`, with the secret of the hub.

import { parseHubAddress } from '../../../packages/cli-kit/src/hub-address.mjs';
import { REACH_ADVICE } from '../../../packages/cli-kit/src/hub-client.mjs';
import { isOnThisMachine } from '../../../packages/cli-kit/src/token.mjs';
import { accessToken, DEV_VARS_NAME } from '../../lib/dev-vars.mjs';
import { UsageError, UserError } from '../../lib/errors.mjs';
import { LOCAL_HUB } from '../hub/local-hub.mjs';

export const isNamespace = (name) => /^[A-Za-z0-9._-]{1,64}$/.test(name);

/** The pauses before each repetition of a request while the hub cannot be reached or is not available, in milliseconds. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];
const TIMEOUT_MS = 120_000;
/** How often a request is repeated that the hub postpones with `Retry-After`: several exports at once wait for each other. */
const MAX_POSTPONEMENTS = 100;

/**
 * A hub with its secret. `hasAnswered`: whether a hub has answered at this address before.
 * @typedef {{url: string, secret: string, hasAnswered?: boolean}} HubAccess
 */

/**
 * Returns a hub with its secret: CLI_API_TOKEN, or else the secret of the local hub.
 * @param {string | undefined} hub the address; by default the local hub
 * @param {string} usage
 * @returns {HubAccess}
 * @throws {UsageError} if the address is not that of a hub, or is of another computer and is not https or has no CLI_API_TOKEN: the
 *   secret of the local hub must not be sent to another hub
 */
export function hubAccess(hub = LOCAL_HUB, usage) {
  const url = parseHubAddress(hub);
  if (!isOnThisMachine(url)) {
    if (!url.startsWith('https:')) throw new UsageError(`--hub must be an https address, but is ${hub}`, usage);
    if (!process.env.CLI_API_TOKEN) {
      throw new UsageError(`Set CLI_API_TOKEN to the secret of ${hub}: the secret in ${DEV_VARS_NAME} is that of the local hub.`, usage);
    }
  }
  return { url, secret: process.env.CLI_API_TOKEN || accessToken() };
}

/**
 * Sends a request about a namespace, and returns the body of the answer. Repeats the request while the hub is not available, after the
 * pause that the hub names: repeating a request does no harm.
 * @param {HubAccess} hub
 * @param {string} namespace
 * @param {'GET' | 'POST'} method
 * @param {string} path below `/api/namespaces/`
 * @param {object} [body]
 * @param {(state: string) => void} [update] called before each pause
 * @returns {Promise<any>}
 * @throws {UserError}
 */
export async function requestAsOperator(hub, namespace, method, path, body, update = () => {}) {
  for (let attempt = 0, postponements = 0; ; ) {
    const outcome = await sendOnce(hub, namespace, method, path, body);
    if ('answer' in outcome) return outcome.answer;
    const { error, isTransient, retryAfterMs } = outcome;
    const isPostponed = retryAfterMs !== undefined && postponements < MAX_POSTPONEMENTS;
    if (!isTransient || (!isPostponed && attempt === PAUSES_MS.length)) throw error;
    const pauseMs = isPostponed ? retryAfterMs : PAUSES_MS[attempt];
    if (isPostponed) postponements += 1;
    else attempt += 1;
    update(`the hub is not available, next attempt in ${Math.ceil(pauseMs / 1000)} s`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** @returns {Promise<{answer: any} | {error: UserError, isTransient: boolean, retryAfterMs?: number}>} */
async function sendOnce(hub, namespace, method, path, body) {
  const { url, secret } = hub;
  const headers = { authorization: `Bearer ${secret}:${namespace}`, ...(body ? { 'content-type': 'application/json' } : {}) };
  let response;
  let answer;
  try {
    const init = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS) };
    response = await fetch(`${url}/api/namespaces/${path}`, init);
    answer = await response.json();
  } catch (error) {
    // The hub cannot be reached, or its answer was interrupted or is no JSON.
    const reason = error.cause?.code ?? error.cause?.message ?? error.message;
    const failure =
      error instanceof SyntaxError
        ? new UserError(`${url} does not answer as a hub (status ${response?.status}).`, 'Check the address: --hub URL.')
        : response
          ? new UserError(`The hub ${url} gave no complete answer (status ${response.status}): ${reason}.`)
          : new UserError(`The hub ${url} cannot be reached: ${reason}.`, REACH_ADVICE);
    return { error: failure, isTransient: hub.hasAnswered === true || (response?.status ?? 0) >= 500 };
  }
  hub.hasAnswered = true;
  if (response.ok) return { answer };
  const { status } = response;
  const hint =
    status === 401
      ? 'Set CLI_API_TOKEN to the secret of this hub.'
      : status === 404
        ? 'The hub has an older version. Upgrade it first.'
        : undefined;
  const error = new UserError(`The hub ${url} answered ${status}: ${answer?.error ?? 'no reason'}`, hint);
  const seconds = response.headers.get('retry-after') ?? '';
  const retryAfterMs = /^\d{1,3}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
  return { error, isTransient: status === 429 || status >= 500, retryAfterMs };
}
