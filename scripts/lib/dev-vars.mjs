// `.dev.vars`: the secrets of the local hub, and the access tokens that follow from them.

import { createHmac, randomBytes } from 'node:crypto';
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
 * The variables of `.dev.vars`; none when there is no such file.
 * @returns {Record<string, string>}
 */
export function devVars() {
  return devVarsExist() ? parseDevVars(readFileSync(DEV_VARS, 'utf8')) : {};
}

/** A variable and its value, by the rules of the npm package dotenv, which wrangler reads `.dev.vars` with. */
const VARIABLE =
  /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$/gm;

/**
 * Reads the text of a `.dev.vars` as wrangler does: the last line of a name counts, quotes are taken off and keep what
 * stands between them (blanks, `#`, line breaks), and `\n` in double quotes is a line break.
 * @param {string} text
 * @returns {Record<string, string>}
 */
export function parseDevVars(text) {
  const found = [...text.replace(/\r\n?/g, '\n').matchAll(VARIABLE)];
  return Object.fromEntries(found.map(([, name, written = '']) => [name, unquoted(written.trim())]));
}

/** @param {string} written */
function unquoted(written) {
  const value = written.replace(/^(['"`])([^]*)\1$/gm, '$2');
  return written.startsWith('"') ? value.replaceAll('\\n', '\n').replaceAll('\\r', '\r') : value;
}

/**
 * The access token of the local hub.
 * @returns {string}
 */
export function accessToken() {
  const token = devVars().CLI_API_TOKEN;
  if (!token) {
    throw new UserError(
      '.dev.vars has no CLI_API_TOKEN, the token that opens the hub.',
      'Add a line such as CLI_API_TOKEN=<a long random text>, or delete the file: the next start writes a new one.',
    );
  }
  return token;
}

/**
 * The access token of one namespace, which opens no other.
 * @param {string} secret the hub's `CLI_API_TOKEN`
 * @param {string} namespace
 */
export function namespaceToken(secret, namespace) {
  const mac = createHmac('sha256', secret).update(`namespace:${namespace}`).digest('base64url');
  return `${mac}:${namespace}`;
}
