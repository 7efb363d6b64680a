/**
 * Signing in to a hub: with a token that the user gave, with the token that this computer received by an earlier pairing, or by
 * pairing.
 */

import { DeviceStore } from './device-store.mjs';
import { HubClient, HubError, callWithRetry } from './hub-client.mjs';
import { RefusedError } from './hub-socket.mjs';
import { PairingUnsupportedError, pairDevice } from './pairing.mjs';
import { qrCode } from './qr-code.mjs';
import { askForToken, findToken, isDeviceToken, namespaceOf, warnOfExposedToken } from './token.mjs';

/** How long to retry while the hub is unreachable. */
const START_TIMEOUT_MS = 30_000;

/**
 * @typedef {object} Access
 * @property {string} token
 * @property {string} namespace that the token opens
 * @property {boolean} isPaired whether this computer received the token by pairing, and stores it
 *
 * @typedef {object} SignInOptions
 * @property {string} hub its address
 * @property {string} home the folder of the state
 * @property {string} [token]
 * @property {string} [tokenFile]
 *
 * @typedef {object} Surroundings
 * @property {Record<string, string | undefined>} env
 * @property {string} devVars path of the `.dev.vars` that may have the token
 * @property {ReturnType<typeof import('./log.mjs').makeLog>} log
 * @property {NodeJS.ReadableStream & {isTTY?: boolean}} input
 * @property {NodeJS.WritableStream & {isTTY?: boolean}} output
 */

/**
 * Returns the access to the hub.
 * @param {SignInOptions} options
 * @param {Surroundings} surroundings
 * @returns {Promise<Access>}
 * @throws {import('./errors.mjs').UserError} when the request of this computer was denied, or the hub has no pairing and there is no token
 * @throws {HubError}
 */
export async function signIn(options, surroundings) {
  const { env, devVars, log, input, output } = surroundings;
  const { hub, home } = options;
  const given = findToken(options, env, devVars);
  warnOfExposedToken(options, log.warn);
  if (given) return { token: given, namespace: await readNamespace(hub, given), isPaired: false };
  const store = new DeviceStore({ home, hub });
  const stored = store.load();
  if (stored) return { token: stored.token, namespace: stored.namespace, isPaired: true };
  try {
    const granted = await pairDevice({ hub, log, show: (request) => showCode(request, { hub, log, output }) });
    store.save(granted);
    log.info(`Connected to the namespace ${granted.namespace} as “${granted.device.name}”. The token is stored in ${store.file}.`);
    return { token: granted.token, namespace: granted.namespace, isPaired: true };
  } catch (error) {
    if (!(error instanceof PairingUnsupportedError)) throw error;
    const token = await askForToken(hub, { input, output });
    return { token, namespace: await readNamespace(hub, token), isPaired: false };
  }
}

/** Whether the hub refused the token: it is wrong, or its device was revoked. A 401 of a proxy is no refusal. @param {unknown} error */
export function isTokenRefused(error) {
  return error instanceof HubError
    ? error.status === 401 && error.code !== 'http_error'
    : error instanceof RefusedError && error.isTokenRefused;
}

/**
 * Deletes the stored token that the hub refused, so that the next `signIn` pairs again.
 * @param {SignInOptions} options
 * @param {string} token
 */
export function forgetToken({ home, hub }, token) {
  new DeviceStore({ home, hub }).remove(token);
}

/** Returns the namespace that a token opens. Only the hub knows the namespace of a device's token. */
async function readNamespace(hub, token) {
  if (!isDeviceToken(token)) return namespaceOf(token);
  const client = new HubClient({ hub, token });
  return (await callWithRetry(() => client.signIn(), { retryTimeoutMs: START_TIMEOUT_MS })).namespace;
}

/** Shows a code: on a terminal with a QR code, else as one line of the log. */
async function showCode({ code, url, expiresAt }, { hub, log, output }) {
  const minutes = Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
  const validity = `valid for ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`;
  if (!output.isTTY) {
    log.info(
      `To connect this computer to ${hub}, open ${url} in a browser, compare the code ${code} and approve it. The code is ${validity}.`,
    );
    return;
  }
  output.write(`
This computer is not connected to ${hub} yet. Open this address in a browser, or scan the QR code with a phone:

  ${url}

${qrCode(url).replaceAll(/^/gm, '  ')}

Approve the request there if it shows the same code:

  \x1b[1m${code}\x1b[22m   (${validity})

Waiting for the approval. Ctrl-C ends this program.
`);
}
