// Waits until a hub that was just started serves requests, and finds the token that it accepts.

import { setTimeout as sleep } from 'node:timers/promises';
import { DEV_VARS_NAME } from '../../lib/dev-vars.mjs';
import { UserError } from '../../lib/errors.mjs';
import { startLine } from '../../lib/invocation.mjs';

const POLL_MS = 100;

const REQUEST_TIMEOUT_MS = 5_000;

/** The hub reports a permanent problem, such as an invalid configuration. */
export class HubRefusedError extends UserError {}

/**
 * Waits until the hub serves requests.
 * @param {string} address of the hub
 * @param {object} options
 * @param {string[]} options.tokens access tokens to try
 * @param {number} options.timeoutMs
 * @param {() => void} options.assertRunning called before each attempt; throws if the hub has exited
 * @param {(variable: string) => string} options.settingFileOf returns the file in which a variable of the hub is set
 * @returns {Promise<string>} the first token that the hub accepts
 * @throws {HubRefusedError} at once for a permanent problem
 * @throws {UserError} on timeout
 */
export async function waitUntilReady(address, { tokens, timeoutMs, assertRunning, settingFileOf }) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    assertRunning();
    const { token, transientProblem } = await attempt(address, tokens, settingFileOf);
    if (token !== undefined) return token;
    if (Date.now() >= deadline) {
      throw new UserError(
        `The hub did not serve ${address} within ${timeoutMs / 1000} s: ${transientProblem}.`,
        `Show the output of the runtime with: ${startLine('--verbose')}`,
      );
    }
    await sleep(POLL_MS);
  }
}

/**
 * Whether the hub responds to a request within a time limit.
 * @param {string} address of the hub
 * @param {number} timeoutMs
 * @returns {Promise<boolean>}
 */
export async function respondsWithin(address, timeoutMs) {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    const { status } = await request(`${address}/health`);
    if (status !== undefined) return true;
    await sleep(POLL_MS);
  }
  return false;
}

/**
 * @param {string} address
 * @param {string[]} tokens
 * @param {(variable: string) => string} settingFileOf
 * @returns {Promise<{token: string, transientProblem?: undefined} | {token?: undefined, transientProblem: string}>} `transientProblem`: why the hub
 *   cannot serve requests yet
 */
async function attempt(address, tokens, settingFileOf) {
  const health = await request(`${address}/health`);
  // /health fails only if the configuration is invalid: waiting would not help.
  if (health.status === 503 && health.hubError) throw toRefusedError(health.hubError, settingFileOf);
  if (health.status !== 200) return { transientProblem: health.summary };
  for (const token of tokens) {
    const response = await request(`${address}/api/sessions`, { authorization: `Bearer ${token}` });
    if (response.status === 200) return { token };
    if (response.status === 401) continue;
    const isPermanent = response.status === 503 && response.hubError && !response.hubError.includes('Try again');
    if (isPermanent) throw toRefusedError(response.hubError, settingFileOf);
    return { transientProblem: response.summary };
  }
  throw new HubRefusedError(
    `The hub does not accept the access token of ${DEV_VARS_NAME}.`,
    'Set CLI_API_TOKEN there to letters and digits only: `#`, quotes and line breaks have a special meaning.',
  );
}

/**
 * @param {string} url
 * @param {Record<string, string>} [headers]
 * @returns {Promise<{status?: number, hubError?: string, summary: string}>} `hubError`: the error message of the hub
 */
async function request(url, headers = {}) {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    const text = await response.text();
    return { status: response.status, hubError: parseHubError(text), summary: `status ${response.status}, ${text.slice(0, 500)}` };
  } catch (error) {
    return { summary: error.cause?.message || error.message };
  }
}

/**
 * Returns the message of a hub's error, which is an object with `error` and `code`. Errors of wrangler have another form.
 * @param {string} text
 */
function parseHubError(text) {
  try {
    const { error, code } = JSON.parse(text);
    return typeof code === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string} message
 * @param {(variable: string) => string} settingFileOf
 */
function toRefusedError(message, settingFileOf) {
  const variable = message.match(/\b(?:[A-Z]+(?:_[A-Z]+)+|[A-Z]{5,})\b/)?.[0];
  const advice = variable ? `${variable} is set in ${settingFileOf(variable)}: change it there, and start` : 'Then start';
  return new HubRefusedError(`The hub cannot serve: ${message}`, `${advice} again with: ${startLine()}`);
}
