// The access token of a deployment. A generated token is in a file until it has been printed, so that an interrupted run does not
// lose it. A token of the namespace `smoke` stays, for the smoke tests of later deployments.

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { namespaceToken } from '../dev-vars.mjs';
import { UserError } from '../errors.mjs';
import { deploymentFolder } from '../paths.mjs';
import { SECRET_NAME } from './config.mjs';

/** The namespace of the smoke test. */
export const SMOKE_NAMESPACE = 'smoke';

/** The file for `wrangler deploy --secrets-file`. @param {string} env */
export const secretsFile = (env) => path.join(deploymentFolder(env), 'secrets.json');

/** @param {string} env */
const smokeTokenFile = (env) => path.join(deploymentFolder(env), 'smoke-token');

/**
 * Writes a file that only this user can read.
 * @param {string} file
 * @param {string} text
 */
function writePrivate(file, text) {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text, { mode: 0o600 });
}

/**
 * Chooses the token of a new deployment: the variable CLI_API_TOKEN, or a random one.
 * @param {string} env
 */
export function createSecret(env) {
  const chosen = process.env.CLI_API_TOKEN;
  if (chosen?.includes(':')) {
    throw new UserError(
      'CLI_API_TOKEN is the token of a namespace, and cannot be the secret of a new hub.',
      'Set it to a long random text without a colon, or unset it: then a secret is generated.',
    );
  }
  if (!chosen && process.env.CI) {
    throw new UserError(
      'The hub has no CLI_API_TOKEN yet. A generated one would be in the log of this machine.',
      'Store a long random text as a secret of the CI, and pass it in the variable CLI_API_TOKEN.',
    );
  }
  writePrivate(secretsFile(env), JSON.stringify({ [SECRET_NAME]: chosen || randomBytes(24).toString('hex') }));
}

/**
 * Returns the token of {@link createSecret}, if it has not been printed yet.
 * @param {string} env
 * @returns {string | undefined}
 */
export function pendingSecret(env) {
  if (!existsSync(secretsFile(env))) return undefined;
  return JSON.parse(readFileSync(secretsFile(env), 'utf8'))[SECRET_NAME];
}

/** Forgets the token, after it has been printed. @param {string} env */
export function forgetSecret(env) {
  rmSync(secretsFile(env), { force: true });
}

/**
 * Stores a token for later smoke tests.
 * @param {string} env
 * @param {string} secret
 */
export const storeSmokeToken = (env, secret) => writePrivate(smokeTokenFile(env), namespaceToken(secret, SMOKE_NAMESPACE));

/**
 * Returns the token for a smoke test: of the variable CLI_API_TOKEN, or the stored one.
 * @param {string} env
 * @returns {string | undefined}
 */
export function findSmokeToken(env) {
  const given = process.env.CLI_API_TOKEN;
  if (given) return given.includes(':') ? given : namespaceToken(given, SMOKE_NAMESPACE);
  return existsSync(smokeTokenFile(env)) ? readFileSync(smokeTokenFile(env), 'utf8') : undefined;
}
