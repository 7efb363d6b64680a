/**
 * Signing in to a hub: with a code or a token that the user gave, with the token that this computer received by an earlier pairing,
 * or by pairing.
 */

import { DeviceStore } from './device-store.mjs';
import { HubClient, HubError, callWithRetry } from './hub-client.mjs';
import { RefusedError } from './hub-socket.mjs';
import { PairingUnsupportedError, pairDevice, redeemCode } from './pairing.mjs';
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
 * @property {string} hub the address of the hub
 * @property {string} home the folder of the state
 * @property {string} [token]
 * @property {string} [tokenFile]
 * @property {string} [code] that the console shows. The code is used before any token
 *
 * @typedef {object} SignInContext
 * @property {Record<string, string | undefined>} env
 * @property {string} devVars path of the `.dev.vars` that may have the token
 * @property {ReturnType<typeof import('./log.mjs').makeLog>} log
 * @property {NodeJS.ReadableStream & {isTTY?: boolean}} input
 * @property {NodeJS.WritableStream & {isTTY?: boolean}} output
 */

/**
 * Returns the access to the hub.
 * @param {SignInOptions} options
 * @param {SignInContext} context
 * @returns {Promise<Access>}
 * @throws {import('./errors.mjs').UserError} when the request of this computer was denied, or the hub has no pairing and there is no token
 * @throws {HubError}
 */
export async function signIn(options, context) {
  const { env, devVars, log, input, output } = context;
  const { hub, home, code } = options;
  const store = new DeviceStore({ home, hub });
  /** @param {import('./pairing.mjs').Grant} granted @returns {Access} */
  const saveGrant = (granted) => {
    store.save(granted);
    log.info(`Connected to the namespace ${granted.namespace} as “${granted.device.name}”. The token is stored in ${store.file}.`);
    return { token: granted.token, namespace: granted.namespace, isPaired: true };
  };
  if (code !== undefined) {
    const granted = await redeemCode({ hub, code });
    const stored = store.load();
    if (granted && stored?.namespace === granted.namespace && (await isAccepted(hub, stored.token))) {
      await revokeNewDevice(hub, granted, log);
      log.info(`This computer is already connected to the namespace ${stored.namespace} as “${stored.device.name}”.`);
      return { token: stored.token, namespace: stored.namespace, isPaired: true };
    }
    if (granted && stored && stored.namespace !== granted.namespace)
      log.warn(`This computer was connected to the namespace ${stored.namespace} as “${stored.device.name}”. Revoke that device there.`);
    if (granted) return saveGrant(granted);
    log.warn(`The code ${code} is not valid: it works once, for 5 minutes. Continuing without the code.`);
  }
  const given = findToken(options, env, devVars);
  warnOfExposedToken(options, log.warn);
  if (given) return { token: given, namespace: await readNamespace(hub, given), isPaired: false };
  const stored = store.load();
  if (stored) return { token: stored.token, namespace: stored.namespace, isPaired: true };
  try {
    return saveGrant(await pairDevice({ hub, log, show: (request) => showCode(request, { hub, log, output }) }));
  } catch (error) {
    if (!(error instanceof PairingUnsupportedError)) throw error;
    const token = await askForToken(hub, { input, output });
    return { token, namespace: await readNamespace(hub, token), isPaired: false };
  }
}

/** Whether the hub refused the token: it is wrong, or its device was revoked. A 401 of a proxy is no refusal. @param {unknown} error */
export function isTokenRefused(error) {
  return error instanceof HubError ? error.status === 401 && error.isOfHub : error instanceof RefusedError && error.isTokenRefused;
}

/**
 * Deletes the stored token that the hub refused, so that the next `signIn` pairs again.
 * @param {SignInOptions} options
 * @param {string} token
 */
export function forgetToken({ home, hub }, token) {
  new DeviceStore({ home, hub }).remove(token);
}

/** Whether the hub accepts a token. A token that cannot be checked counts as refused. */
const isAccepted = (hub, token) =>
  new HubClient({ hub, token }).signIn().then(
    () => true,
    () => false,
  );

/** Revokes the device that a code has just added: this computer already has a token of the namespace, which its programs use. */
async function revokeNewDevice(hub, { token, device }, log) {
  try {
    await new HubClient({ hub, token }).revokeDevice(device.id);
  } catch (error) {
    log.warn(`The code has added a second device, “${device.name}”. Revoke the newer one in the console. (${error.message})`);
  }
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
