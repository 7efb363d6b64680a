// `.dev.vars`: the secrets of the local hub.

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { UserError } from './errors.mjs';
import { DEV_VARS } from './paths.mjs';

/** Whether there is a `.dev.vars`; what is in it is its owner's business. */
export const devVarsExist = () => existsSync(DEV_VARS);

/** Writes a `.dev.vars` with a random access token, for this user's eyes only. */
export function createDevVars() {
  const text = [
    '# Secrets of the local hub, made by set-up and kept out of git. Delete this file for a new token.',
    `CLI_API_TOKEN=${randomBytes(24).toString('hex')}`,
    '',
  ].join('\n');
  // Never over a file that came into being meanwhile.
  writeFileSync(DEV_VARS, text, { mode: 0o600, flag: 'wx' });
}

/**
 * The access token of the local hub.
 * @returns {string}
 */
export function accessToken() {
  const text = existsSync(DEV_VARS) ? readFileSync(DEV_VARS, 'utf8') : '';
  const value = text.match(/^\s*(?:export\s+)?CLI_API_TOKEN\s*=\s*(.*?)\s*$/m)?.[1].replace(/^(["'])(.*)\1$/, '$2');
  if (!value) {
    throw new UserError(
      '.dev.vars has no CLI_API_TOKEN, the token that opens the hub.',
      'Add a line such as CLI_API_TOKEN=<a long random text>, or delete the file: the next start writes a new one.',
    );
  }
  return value;
}
