/** Where the access token comes from, and which namespace it names. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UsageError } from './args.mjs';

/** `.dev.vars` of the project this example is part of; `npm run dev` writes it. */
const DEV_VARS = fileURLToPath(new URL('../../../.dev.vars', import.meta.url));

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

/** One variable of a dotenv-like file; undefined when the file or the line is not there. */
function readVariable(file, name) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match?.[1] !== name) continue;
    return (
      /^"(.*)"$|^'(.*)'$/
        .exec(match[2])
        ?.slice(1)
        .find((part) => part !== undefined) ?? match[2]
    );
  }
  return undefined;
}

/** The namespace a token names: what follows its last colon, else `default`. */
export function namespaceOf(token) {
  const colon = token.lastIndexOf(':');
  return colon < 0 ? 'default' : token.slice(colon + 1);
}
