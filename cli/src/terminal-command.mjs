/** The command that continues a session in the agent's own terminal program. */

import { isSessionId } from './session-id.mjs';

const quote = (word) => (/^[A-Za-z0-9_/.:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/**
 * Returns the command line of the program.
 * @param {import('./launch.mjs').Launch} launch
 * @param {string | undefined} sessionId the agent's id
 * @returns {string[] | null} null if the program is unknown, or cannot take this id
 */
export function terminalArgv({ entry }, sessionId) {
  if (!entry || !isSessionId(sessionId)) return null;
  return [entry.terminal.command, ...entry.terminal.args(sessionId)];
}

/** Returns the command for a shell. @param {string} cwd @param {string[]} argv */
export const shellCommand = (cwd, argv) => `cd ${quote(cwd)} && ${argv.map(quote).join(' ')}`;
