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

/**
 * One variable of a dotenv-like file; undefined when the file or the line is not there. Read as wrangler does, so that
 * agent and hub find the same: the last line of a name counts, quotes are taken off, and what follows a `#` outside of
 * quotes is a comment.
 */
function readVariable(file, name) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
  const line = /^[ \t]*(?:export\s+)?([\w.-]+)[ \t]*=[ \t]*(?:'([^'\n]*)'|"([^"\n]*)"|`([^`\n]*)`|([^#\n]*))/gm;
  const found = [...text.replace(/\r\n?/g, '\n').matchAll(line)].findLast(([, key]) => key === name);
  return found
    ?.slice(2)
    .find((value) => value !== undefined)
    .trim();
}

/** The namespace a token names: what follows its last colon, else `default`. */
export function namespaceOf(token) {
  const colon = token.lastIndexOf(':');
  return colon < 0 ? 'default' : token.slice(colon + 1);
}
