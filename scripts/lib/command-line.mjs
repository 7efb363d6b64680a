// Command lines: what a command takes, and its usage for who asks or mistypes.

import { parseArgs } from 'node:util';
import { UserError } from './errors.mjs';

/**
 * Reads the options of a command; `--help` is one of each.
 * @param {string[]} args
 * @param {string} usage shown with an error
 * @param {import('node:util').ParseArgsConfig['options']} [known]
 * @returns {Record<string, any>}
 * @throws {UserError} on an unknown option, a missing value or a stray word
 */
export function parseCommandLine(args, usage, known = {}) {
  try {
    return parseArgs({ args, options: { ...known, help: { type: 'boolean', short: 'h', default: false } } }).values;
  } catch (error) {
    if (!String(error.code).startsWith('ERR_PARSE_ARGS_')) throw error;
    // What follows the first sentence is advice to programmers.
    throw new UserError(`${error.message.split(/\. |\n/)[0].replace(/\.$/, '')}.`, usage);
  }
}
