// Runs a command of the npm package.

import { readFileSync } from 'node:fs';
import { closeMatches } from '../lib/close-matches.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { inProject } from '../lib/paths.mjs';
import { COMMANDS, DEFAULT_COMMAND, PACKAGE_USAGE } from './usage.mjs';

/**
 * Runs the script of a command by importing it. The script reads its arguments from `process.argv`.
 * @param {string[]} args a command with its arguments, or the options of the hub
 */
export async function runCommand(args) {
  if (args[0] === '--version') {
    console.log(JSON.parse(readFileSync(inProject('package.json'), 'utf8')).version);
    return;
  }
  const hasCommand = args.length > 0 && !args[0].startsWith('-');
  const [name, commandArgs] = hasCommand ? [args[0], args.slice(1)] : [DEFAULT_COMMAND, args];
  if (hasCommand && !Object.hasOwn(COMMANDS, name)) {
    const [similar] = closeMatches(name, Object.keys(COMMANDS));
    await main(() => {
      throw new UsageError(`There is no command ${name}.${similar ? ` Did you mean ${similar}?` : ''}`, PACKAGE_USAGE);
    });
    return;
  }
  const script = new URL(`./${name}.mjs`, import.meta.url);
  process.argv.splice(1, process.argv.length, script.pathname, ...commandArgs);
  await import(script.href);
}
