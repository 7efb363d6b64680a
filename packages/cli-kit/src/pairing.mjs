/**
 * Pairing: this device gets a token of its own from the hub. Either the console has shown a code, which this device exchanges. Or
 * this device shows a code, and a person who is signed in to the console compares and approves it.
 */

import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { AccessRefusedError, UserError } from './errors.mjs';
import { HubClient, HubError, callWithRetry } from './hub-client.mjs';
import { OutageMonitor } from './outage.mjs';
import { isDeviceToken } from './token.mjs';

/** How long to retry the first request, or the exchange of a code, while the hub is unreachable. */
const START_TIMEOUT_MS = 30_000;

const MAX_NAME_CHARS = 64;

const MAX_POLL_INTERVAL_MS = 60_000;

/** What the answers of the hub must look like: they are printed, so control characters could change what the terminal shows. */
const CODE = /^[A-Z0-9]{4}-[A-Z0-9]{4}$/;
const NAMESPACE = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * The token of a new device.
 * @typedef {{token: string, namespace: string, device: {id: string, name: string, kind: string}}} Grant
 */

/** The hub has no pairing, because it is older than this program. */
export class PairingUnsupportedError extends UserError {}

/** Characters that the hub refuses in the name of a device: they could hide or reorder text. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The name of this computer, shortened to a valid name of a device: 1 to 64 visible characters. */
export function computerName(name = hostname()) {
  const visible = [...name.replace(HIDDEN, '').trim()].slice(0, MAX_NAME_CHARS).join('');
  return visible.trim() || 'Computer';
}

/**
 * Asks for a token and waits for the decision. A code that expires is replaced by a new one. Retries while the hub is unreachable.
 * @param {{hub: string, name?: string, log: ReturnType<typeof import('./log.mjs').makeLog>,
 *   show: (request: {code: string, url: string, expiresAt: number}) => void | Promise<void>}} options `name`: of the
 *   device; `show`: shows a code to the user
 * @returns {Promise<Grant>}
 * @throws {PairingUnsupportedError}
 * @throws {AccessRefusedError} when the request was denied
 * @throws {HubError}
 */
export async function pairDevice({ hub, name = computerName(), log, show }) {
  const client = new HubClient({ hub });
  const outage = new OutageMonitor({ hub, log });
  for (let timeoutMs = START_TIMEOUT_MS; ; timeoutMs = Number.POSITIVE_INFINITY) {
    const request = await outage.callWithRetry('pairing', () => requestAccess(client, name), timeoutMs);
    await show(request);
    const granted = await waitForDecision(request, client, outage);
    if (granted) return granted;
    log.info('The code has expired. Here is a new one.');
  }
}

/**
 * Exchanges a code that the console shows.
 * @param {{hub: string, code: string, name?: string}} options `name`: of the device
 * @returns {Promise<Grant | null>} null if the hub does not accept the code, for example because it was used or has expired
 * @throws {HubError}
 */
export async function redeemCode({ hub, code, name = computerName() }) {
  const client = new HubClient({ hub });
  try {
    const grant = await callWithRetry(() => client.redeemCode({ code, name, kind: 'cli' }), { retryTimeoutMs: START_TIMEOUT_MS });
    if (!isGrant(grant)) throw invalidAnswer(client);
    return grant;
  } catch (error) {
    if (hasNoPairing(error) || error.code === 'unknown_code') return null;
    throw error;
  }
}

/** @param {HubClient} client @param {string} name */
async function requestAccess(client, name) {
  try {
    const request = await client.requestAccess({ name, kind: 'cli' });
    const { code, expiresAt, intervalMs } = request;
    const hasTimes = Number.isFinite(expiresAt) && intervalMs > 0 && intervalMs <= MAX_POLL_INTERVAL_MS;
    if (!CODE.test(code) || !hasTimes) throw invalidAnswer(client);
    // The hub does not know the prefix under which a proxy serves it.
    return { ...request, url: `${client.hub}/pair#${code}` };
  } catch (error) {
    if (!hasNoPairing(error)) throw error;
    throw new PairingUnsupportedError(`The hub at ${client.hub} has no pairing: it is older than this program.`);
  }
}

/** Whether a hub that is older than pairing has answered: it does not know the path. @param {unknown} error */
const hasNoPairing = (error) => error instanceof HubError && error.isOfHub && [401, 404, 405].includes(error.status);

/** @param {HubClient} client */
const invalidAnswer = ({ hub }) =>
  new HubError(`The server at ${hub} is not a hub: its answer is invalid.`, { status: 400, code: 'not_a_hub' });

/** Whether an approval has a token, and a name and a namespace that can be printed. */
const isGrant = ({ token, namespace, device }) =>
  isDeviceToken(String(token)) && NAMESPACE.test(namespace) && typeof device?.name === 'string' && !/\p{Cc}/u.test(device.name);

/**
 * @param {{secret: string, intervalMs: number}} request
 * @param {HubClient} client
 * @param {OutageMonitor} outage
 * @returns the token and its device; null when the code has expired
 */
async function waitForDecision({ secret, intervalMs }, client, outage) {
  for (;;) {
    await sleep(intervalMs);
    try {
      const answer = await outage.callWithRetry('pairing', () => poll(client, secret), Number.POSITIVE_INFINITY);
      if (answer.status === 'approved') {
        if (!isGrant(answer)) throw invalidAnswer(client);
        return answer;
      }
    } catch (error) {
      if (error.code === 'unknown_code') return null;
      if (error.code !== 'request_denied') throw error;
      throw new AccessRefusedError('The request was denied in the console. To ask again, start this program again.');
    }
  }
}

/** Asks for the decision. Several computers behind one address can exceed the hub's limit, so the next poll waits as usual. */
const poll = (client, secret) =>
  client.pollAccess(secret).catch((error) => {
    if (error.status !== 429) throw error;
    return { status: 'pending' };
  });
