/** Where the access token comes from, and which namespace it names. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UsageError } from './args.mjs';

/** `.dev.vars` of the project this example is part of; `npm run dev` writes it. */
const DEV_VARS = fileURLToPath(new URL('../../../.dev.vars', import.meta.url));

/** What to do about a token that the hub does not take. */
export const TOKEN_ADVICE =
  'Compare it with the CLI_API_TOKEN of the hub. A hub with REQUIRE_NAMESPACE_TOKENS takes only the token of a' +
  ' namespace: `npm run token -- NAMESPACE` prints it.';

/**
 * Finds the access token: the option, else the environment, else the project's `.dev.vars`.
 * @param {string | undefined} option value of `--token`
 * @param {Record<string, string | undefined>} env
 * @param {string} [file] path of the variables file
 * @returns {string}
 * @throws {UsageError} when there is none
 */
export function findToken(option, env, file = DEV_VARS) {
  const token = option || env.CLI_API_TOKEN || readVariable(file, 'CLI_API_TOKEN');
  if (!token) {
    throw new UsageError(
      'No access token. Start the hub with `npm run dev` (it writes .dev.vars), or give --token TOKEN or CLI_API_TOKEN.',
    );
  }
  return token;
}

/** A variable and its value, by the rules of the npm package dotenv, which wrangler reads `.dev.vars` with. */
const VARIABLE =
  /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$/gm;

/**
 * One variable of a dotenv file; undefined when the file or the line is not there. Read as wrangler does, so that agent
 * and hub find the same: the last line of a name counts, quotes are taken off and keep what stands between them.
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

/** The namespace a token names: what follows its last colon, else `default`. */
export function namespaceOf(token) {
  const colon = token.lastIndexOf(':');
  return colon < 0 ? 'default' : token.slice(colon + 1);
}
