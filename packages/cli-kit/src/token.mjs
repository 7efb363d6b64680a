/** The access token: where it is read from, and its namespace. */

import { readFileSync, statSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { askSecret } from './ask-secret.mjs';
import { parseDevVars } from './dev-vars.mjs';
import { UsageError, UserError } from './errors.mjs';
import { HUB_COMMAND, TOKEN_COMMAND } from './installation.mjs';

const DEVICE_TOKEN = /sgd_[\w-]{43}/;

/** Whether a token belongs to a device: it was received by pairing, and the console can revoke it. @param {string} token */
export const isDeviceToken = (token) => token.startsWith('sgd_');

/** What to do when the hub refuses a token. @param {string} token */
export function tokenAdvice(token) {
  if (isDeviceToken(token)) return 'This device was removed from the hub. To connect it again, start this program at a terminal.';
  return (
    'Compare it with the CLI_API_TOKEN of the hub. A hub with REQUIRE_NAMESPACE_TOKENS accepts only the token of a' +
    ` namespace, which \`CLI_API_TOKEN=SECRET ${TOKEN_COMMAND} NAMESPACE\` prints.`
  );
}

/**
 * Finds the access token: first in the options, then in the environment, then, for a hub on this machine, in the `.dev.vars` that
 * its first start writes.
 * @param {{token?: string, tokenFile?: string, hub: string}} options of the command line; `hub`: its address
 * @param {Record<string, string | undefined>} env
 * @param {string} devVars path of `.dev.vars`
 * @returns {string | undefined}
 * @throws {UserError} when the token file cannot be read or is no token
 */
export function findToken({ token, tokenFile, hub }, env, devVars) {
  if (token) return token;
  if (tokenFile !== undefined) return readTokenFile(tokenFile);
  return env.CLI_API_TOKEN || (isOnThisMachine(hub) ? readVariable(devVars, 'CLI_API_TOKEN') : undefined) || undefined;
}

/**
 * Warns if other users of this computer can read the token that the options name.
 * @param {{token?: string, tokenFile?: string}} options of the command line
 * @param {(text: string) => void} warn
 */
export function warnOfExposedToken({ token, tokenFile }, warn) {
  if (token) {
    warn('--token shows the access token to all users of this computer. Use --token-file FILE or the variable CLI_API_TOKEN.');
  } else if (tokenFile && isReadableByOthers(tokenFile)) {
    warn(`Other users of this computer can read the access token in ${tokenFile}. Run: chmod 600 ${tokenFile}`);
  }
}

/**
 * Asks for the access token at the terminal.
 * @param {string} hub
 * @param {{input: NodeJS.ReadableStream & {isTTY?: boolean}, output: NodeJS.WritableStream}} terminal
 * @returns {Promise<string>}
 * @throws {UsageError} without a terminal, or when the answer is empty
 */
export async function askForToken(hub, { input, output }) {
  const token = input.isTTY ? await askSecret(`Access token of ${hub} (not shown): `, { input, output }) : '';
  if (token) return token;
  const advice = isOnThisMachine(hub) ? `Start the hub with \`${HUB_COMMAND}\`, which writes .dev.vars, give` : 'Give';
  throw new UsageError(`There is no access token for ${hub}. ${advice} --token-file FILE, or set CLI_API_TOKEN.`);
}

/** The loopback addresses, also those of IPv4 that are mapped to IPv6. */
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether a hub's address is an address of this machine. A host name other than `localhost` is not: it is not looked up. @param {string} hub */
export function isOnThisMachine(hub) {
  const host = new URL(hub).hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0) return host === 'localhost';
  if (LOOPBACK.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')) return true;
  return Object.values(networkInterfaces()).some((addresses = []) => addresses.some(({ address }) => address === host));
}

function readTokenFile(file) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const reason = { ENOENT: 'there is no such file', EACCES: 'permission denied', EISDIR: 'it is a directory' }[error.code] ?? error.code;
    // No `UsageError`: a service starts again when the file, or its disk, is there.
    throw new UserError(`--token-file: cannot read ${file}: ${reason}.`);
  }
  const token = text.trim();
  if (token === '' || /[\r\n]/.test(token)) throw new UsageError(`--token-file: ${file} must have one line, the access token.`);
  return token;
}

/** Whether users other than the owner may read a file. False on Windows, where the mode of a file does not show it. */
const isReadableByOthers = (file) => process.platform !== 'win32' && (statSync(file).mode & 0o044) !== 0;

/** One variable of a `.dev.vars`; undefined when the file or the variable is missing. */
function readVariable(file, name) {
  try {
    return parseDevVars(readFileSync(file, 'utf8'))[name];
  } catch {
    return undefined;
  }
}

/** Returns the namespace that an access token names after its last colon; without a colon `default`. @param {string} token */
export function namespaceOf(token) {
  const colon = token.lastIndexOf(':');
  return colon < 0 ? 'default' : token.slice(colon + 1);
}

/** A shorter token or secret is not searched for within values: `dev` is in `/home/dev`, which has no secret. */
const MIN_SEARCHED_CHARS = 8;

/** Variables that every program needs. Their values contain no token, but may contain a weak secret, such as a common word, by chance. */
const KEPT_VARIABLES = ['PATH', 'HOME'];

/**
 * Removes each variable that contains the access token or its secret, the part before the namespace. A short token or secret
 * is not searched for within values: in that case, only a value that is the secret, alone or with a namespace, is removed. Also
 * removes each variable that contains the token of any device.
 * @param {Record<string, string>} env
 * @param {string} token
 */
export function removeToken(env, token) {
  const colon = token.lastIndexOf(':');
  const secret = colon < 0 ? token : token.slice(0, colon);
  const contains = (value, text) => text.length >= MIN_SEARCHED_CHARS && value.includes(text);
  const hasSecret = (value) =>
    DEVICE_TOKEN.test(value) || value === secret || value.startsWith(`${secret}:`) || contains(value, token) || contains(value, secret);
  for (const [name, value] of Object.entries(env)) {
    if (name === 'CLI_API_TOKEN' || (!KEPT_VARIABLES.includes(name) && hasSecret(value))) delete env[name];
  }
}
