// Runs a command of the npm package.

import { readFileSync, statSync } from 'node:fs';
import { closeMatches } from '../lib/close-matches.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { setDataOption } from '../lib/invocation.mjs';
import { inProject } from '../lib/paths.mjs';
import { COMMANDS, DEFAULT_COMMAND, PACKAGE_USAGE } from './usage.mjs';

/** @param {string} folder the value of `--data` @returns {string | undefined} why no hub can store its data there */
function findDataProblem(folder) {
  if (folder === '' || folder.startsWith('-')) return '--data needs a folder.';
  try {
    return statSync(folder).isDirectory() ? undefined : `--data: ${folder} is not a directory.`;
  } catch ({ code }) {
    return code === 'ENOENT' ? undefined : `--data: ${folder}: ${code}`;
  }
}

/** @param {string} name */
function findCommandProblem(name) {
  if (Object.hasOwn(COMMANDS, name)) return undefined;
  const [similar] = closeMatches(name, Object.keys(COMMANDS));
  return `There is no command ${name}.${similar ? ` Did you mean ${similar}?` : ''}`;
}

/**
 * Runs the script of a command by importing it. The script reads its arguments from `process.argv`.
 * @param {string[]} args a command with its arguments, or the options of the hub
 * @param {string} [data] the value of `--data`
 */
export async function runCommand(args, data) {
  if (args[0] === '--version') {
    console.log(JSON.parse(readFileSync(inProject('package.json'), 'utf8')).version);
    return;
  }
  const hasCommand = args.length > 0 && !args[0].startsWith('-');
  const [name, commandArgs] = hasCommand ? [args[0], args.slice(1)] : [DEFAULT_COMMAND, args];
  const problem = (data === undefined ? undefined : findDataProblem(data)) ?? (hasCommand ? findCommandProblem(name) : undefined);
  if (problem !== undefined) {
    await main(() => {
      throw new UsageError(problem, PACKAGE_USAGE);
    });
    return;
  }
  if (data !== undefined) setDataOption(data);
  const script = new URL(`./${name}.mjs`, import.meta.url);
  process.argv.splice(1, process.argv.length, script.pathname, ...commandArgs);
  await import(script.href);
}
