// Parses the command lines of the scripts, with Node's own parser: `npm run dev` and `npm test` start before npm has installed a library.

import { parseArgs } from 'node:util';
import { closeMatches } from './close-matches.mjs';
import { HelpRequest, UsageError } from './errors.mjs';
import { IS_PACKAGE } from './paths.mjs';

/**
 * Parses the options of a command.
 * @param {string[]} args
 * @param {string} usage printed with an error
 * @template {import('node:util').ParseArgsOptionsConfig} [Known={}]
 * @param {Known} [known]
 * @param {{words?: boolean}} [settings] `words`: whether the command takes positional arguments
 * @returns {ReturnType<typeof parseArgs<{options: Known}>>['values'] & {words?: string[]}} the options, and the
 *   positional arguments as `words`
 * @throws {HelpRequest} if the user asks for help
 * @throws {UsageError} on an unknown option, a missing value or an unexpected argument
 */
export function parseCommandLine(args, usage, known, { words = false } = {}) {
  // npm does not pass the option of `npm run NAME --option` to the script, but sets the variable `npm_config_option`. npx passes all
  // options to the script. Its variables have only the options of npx itself, so the npm package does not check them.
  // An empty variable is an option that a file .npmrc turns off.
  const isGiven = (name) => args.some((arg) => arg.split('=')[0] === `--${name}`);
  const isTaken = (name) => Boolean(process.env[`npm_config_${name.replaceAll('-', '_')}`]) && !isGiven(name);
  const optionTakenByNpm = IS_PACKAGE || isGiven('help') ? undefined : Object.keys(known ?? {}).find(isTaken);
  if (optionTakenByNpm) {
    throw new UsageError(`npm did not pass --${optionTakenByNpm} to the script.`, `Put two dashes before the options.\n${usage}`);
  }
  /** @type {import('node:util').ParseArgsOptionsConfig} */
  const options = { ...known, help: { type: 'boolean', short: 'h', default: false } };
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: words });
    const { help, ...others } = values;
    if (help) throw new HelpRequest(usage);
    return /** @type {any} */ (words ? { ...others, words: positionals } : others);
  } catch (error) {
    if (!String(error.code).startsWith('ERR_PARSE_ARGS_')) throw error;
    // Only the first sentence of Node's message is for users.
    const message = `${error.message.split(/\. |\n/)[0].replace(/\.$/, '')}.`;
    const unknown = /^Unknown option '--([^']+)'/.exec(message)?.[1];
    const [similar] = unknown === undefined ? [] : closeMatches(unknown, Object.keys(options));
    throw new UsageError(similar === undefined ? message : `${message} Did you mean --${similar}?`, usage);
  }
}
