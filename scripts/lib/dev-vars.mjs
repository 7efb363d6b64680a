// `.dev.vars`, the secrets of the local hub, and the access tokens derived from them.

import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { makeFolder } from './make-folder.mjs';
import { parseDevVars } from '../../packages/cli-kit/src/dev-vars.mjs';
import { UserError } from './errors.mjs';
import { withLock } from './lock.mjs';
import { DATA_DIR, DEV_VARS, inData, IS_PACKAGE } from './paths.mjs';
import { runStep } from './progress.mjs';

/** The file's name in texts for the user. */
export const DEV_VARS_NAME = IS_PACKAGE ? DEV_VARS : '.dev.vars';

export const devVarsExist = () => existsSync(DEV_VARS);

/** Creates `.dev.vars` if it is missing. */
export async function ensureDevVars() {
  if (devVarsExist()) return;
  const title = '.dev.vars with a random access token';
  await withLock(inData('.wrangler', 'dev-vars.lock'), `creation of ${title}`, async () => {
    // Another process may have created the file while this process waited for the lock.
    if (!devVarsExist()) await runStep(title, async () => createDevVars());
  });
}

/** Writes `.dev.vars` with a random access token, readable by this user only. */
function createDevVars() {
  const text = [
    '# Secrets of the local hub, not in git. To get a new token, delete this file.',
    `CLI_API_TOKEN=${randomBytes(24).toString('hex')}`,
    '',
  ].join('\n');
  makeFolder(DATA_DIR);
  // `wx`: fails if the file exists.
  writeFileSync(DEV_VARS, text, { mode: 0o600, flag: 'wx' });
}

/**
 * Reads the variables of `.dev.vars`; empty without such a file.
 * @returns {Record<string, string>}
 */
export function devVars() {
  return devVarsExist() ? parseDevVars(readFileSync(DEV_VARS, 'utf8')) : {};
}

/**
 * Returns the access token of the local hub.
 * @returns {string}
 */
export function accessToken() {
  const token = devVars().CLI_API_TOKEN;
  if (!token) {
    throw new UserError(
      `${DEV_VARS_NAME} has no CLI_API_TOKEN, the access token of the hub.`,
      'Add the line CLI_API_TOKEN=<a long random text>, or delete the file: the next start writes a new one.',
    );
  }
  return token;
}

/**
 * Returns the access token that is valid for one namespace only.
 * @param {string} secret the hub's `CLI_API_TOKEN`
 * @param {string} namespace
 * @param {number} [generation] how often the tokens of the namespace were revoked
 */
export function namespaceToken(secret, namespace, generation = 0) {
  const [prefix, suffix] = generation === 0 ? ['', ''] : [`${generation}.`, `:${generation}`];
  const mac = createHmac('sha256', secret).update(`namespace:${namespace}${suffix}`).digest('base64url');
  return `${prefix}${mac}:${namespace}`;
}
