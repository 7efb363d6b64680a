// The access token of a deployment:
// - A new access token is stored in a file until it has been printed. An interrupted run therefore does not lose the access token.
// - The token of the namespace `smoke` is stored for the smoke tests of later deployments.

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder } from '../../lib/make-folder.mjs';
import { namespaceToken } from '../../lib/dev-vars.mjs';
import { UserError } from '../../lib/errors.mjs';
import { deploymentFolder } from '../../lib/paths.mjs';
import { SECRET_NAME } from './config.mjs';

/** The namespace of the smoke test. */
const SMOKE_NAMESPACE = 'smoke';

/** The file with the access token, for `wrangler deploy --secrets-file`. @param {string} env */
export const secretsFile = (env) => path.join(deploymentFolder(env), 'secrets.json');

/** @param {string} env */
const smokeTokenFile = (env) => path.join(deploymentFolder(env), 'smoke-token');

/**
 * Writes a file that only this user can read.
 * @param {string} file
 * @param {string} text
 */
function writePrivate(file, text) {
  makeFolder(path.dirname(file));
  writeFileSync(file, text, { mode: 0o600 });
}

/**
 * Stores the access token of a new deployment: the value of the variable CLI_API_TOKEN, or a random text.
 * @param {string} env
 */
export function createSecret(env) {
  const chosen = process.env.CLI_API_TOKEN;
  if (chosen?.includes(':')) {
    throw new UserError(
      'CLI_API_TOKEN is the token of a namespace, and cannot be the secret of a new hub.',
      'Set CLI_API_TOKEN to a long random text without a colon. Or unset it: then a secret is generated.',
    );
  }
  if (!chosen && process.env.CI) {
    throw new UserError(
      'The hub has no CLI_API_TOKEN yet. A generated token would be in the log of this machine.',
      'Store a long random text as a secret of the CI, and pass it in the variable CLI_API_TOKEN.',
    );
  }
  writePrivate(secretsFile(env), JSON.stringify({ [SECRET_NAME]: chosen || randomBytes(24).toString('hex') }));
}

/**
 * Returns the access token that {@link createSecret} stored, until {@link forgetSecret} deletes the file.
 * @param {string} env
 * @returns {string | undefined}
 */
export function pendingSecret(env) {
  if (!existsSync(secretsFile(env))) return undefined;
  return JSON.parse(readFileSync(secretsFile(env), 'utf8'))[SECRET_NAME];
}

/** Deletes the file with the access token. To be called after the access token was printed. @param {string} env */
export function forgetSecret(env) {
  rmSync(secretsFile(env), { force: true });
}

/**
 * Stores the token of the namespace `smoke` for later smoke tests.
 * @param {string} env
 * @param {string} secret
 */
export const storeSmokeToken = (env, secret) => writePrivate(smokeTokenFile(env), namespaceToken(secret, SMOKE_NAMESPACE));

/**
 * Returns the token for a smoke test: the token in the variable CLI_API_TOKEN, or else the stored token.
 * @param {string} env
 * @returns {string | undefined}
 */
export function findSmokeToken(env) {
  const userToken = process.env.CLI_API_TOKEN;
  if (userToken) return userToken.includes(':') ? userToken : namespaceToken(userToken, SMOKE_NAMESPACE);
  return existsSync(smokeTokenFile(env)) ? readFileSync(smokeTokenFile(env), 'utf8') : undefined;
}
