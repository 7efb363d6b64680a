/** The access token: where it is read from, and its namespace. */

import { readFileSync } from 'node:fs';
import { UsageError } from './args.mjs';

/** What to do when the hub refuses the token. */
export const TOKEN_ADVICE =
  'Compare it with the CLI_API_TOKEN of the hub. A hub with REQUIRE_NAMESPACE_TOKENS accepts only the token of a' +
  ' namespace, which `CLI_API_TOKEN=SECRET npm run token -- NAMESPACE` prints.';

/**
 * Finds the access token: from the option, the environment or the `.dev.vars` that `npm run dev` writes, in this order.
 * @param {string | undefined} option value of `--token`
 * @param {Record<string, string | undefined>} env
 * @param {string} file path of `.dev.vars`
 * @returns {string}
 * @throws {UsageError} when there is none
 */
export function findToken(option, env, file) {
  const token = option || env.CLI_API_TOKEN || readVariable(file, 'CLI_API_TOKEN');
  if (!token) {
    throw new UsageError(
      'There is no access token. Start the hub with `npm run dev` (it writes .dev.vars), or set --token or CLI_API_TOKEN.',
    );
  }
  return token;
}

/** A variable and its value, in the syntax of the npm package dotenv, which wrangler uses for `.dev.vars`. */
const VARIABLE =
  /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$/gm;

/**
 * One variable of a dotenv file; undefined when the file or the variable is missing. As in wrangler, the last definition of
 * a name applies, and quotes are removed.
 */
function readVariable(file, name) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
  const found = [...text.replace(/\r\n?/g, '\n').matchAll(VARIABLE)].findLast(([, key]) => key === name);
  const written = found?.[2]?.trim();
  const value = written?.replace(/^(['"`])([^]*)\1$/gm, '$2');
  return written?.startsWith('"') ? value.replaceAll('\\n', '\n').replaceAll('\\r', '\r') : value;
}

/** The namespace of a token: the text after its last colon, else `default`. */
export function namespaceOf(token) {
  const colon = token.lastIndexOf(':');
  return colon < 0 ? 'default' : token.slice(colon + 1);
}

/** A shorter token may be part of values that have nothing to do with it, such as `dev` of `/home/dev`. */
const MIN_SEARCHED_CHARS = 8;

/**
 * Removes the access token from an environment, whatever the variable's name is: each value that contains it, or for a short
 * token, each that is equal to it.
 * @param {Record<string, string>} env
 * @param {string} token
 */
export function removeToken(env, token) {
  const isToken = (value) => value === token || (token.length >= MIN_SEARCHED_CHARS && value.includes(token));
  for (const [name, value] of Object.entries(env)) {
    if (name === 'CLI_API_TOKEN' || isToken(value)) delete env[name];
  }
}
