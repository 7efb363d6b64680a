// Command lines: what a command takes, and its usage for who asks or mistypes.

import { parseArgs } from 'node:util';
import { UserError } from './errors.mjs';

/**
 * Reads the options of a command; `--help` is one of each.
 * @param {string[]} args
 * @param {string} usage shown with an error
 * @param {import('node:util').ParseArgsConfig['options']} [known]
 * @param {{words?: boolean}} [more] `words`: whether the command takes words that are no options
 * @returns {Record<string, any>} the options, and the words as `words` where they are taken
 * @throws {UserError} on an unknown option, a missing value or a stray word
 */
export function parseCommandLine(args, usage, known = {}, { words = false } = {}) {
  const kept = Object.keys(known).find((name) => process.env[`npm_config_${name.replaceAll('-', '_')}`] !== undefined);
  if (kept) {
    throw new UserError(`npm took --${kept} for an option of its own.`, `Two dashes go before the options.\n${usage}`);
  }
  try {
    const options = { ...known, help: { type: 'boolean', short: 'h', default: false } };
    const { values, positionals } = parseArgs({ args, options, allowPositionals: words });
    return words ? { ...values, words: positionals } : values;
  } catch (error) {
    if (!String(error.code).startsWith('ERR_PARSE_ARGS_')) throw error;
    // What follows the first sentence is advice to programmers.
    throw new UserError(`${error.message.split(/\. |\n/)[0].replace(/\.$/, '')}.`, usage);
  }
}
