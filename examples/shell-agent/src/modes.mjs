/** The effect of a permission mode on a shell command. */

import { APPROVE_EVERYTHING } from 'session-gateway-cli-kit/permissions';

/** @typedef {{approvedBy?: {kind: string, label: string}, isForbidden?: boolean}} ModeDecision */

/**
 * Decides whether a command runs. A shell command can change more than files, so `acceptEdits` asks the user and
 * `read-only` runs no command.
 * @param {string} mode
 * @param {string} command
 * @param {boolean} isUnmodified false if a command has changed the shell's variables or left the session's directory: `ls` may then be
 *   another program
 * @returns {ModeDecision} `approvedBy`: why the command runs without asking. If the object is empty, the user is asked
 */
export function decideByMode(mode, command, isUnmodified) {
  switch (mode) {
    case 'bypassPermissions':
    case 'yolo':
      return { approvedBy: APPROVE_EVERYTHING };
    case 'plan':
    case 'read-only':
      return { isForbidden: true };
    case 'safe-yolo':
      return isUnmodified && isReadOnlyCommand(command) ? { approvedBy: READING } : {};
    default:
      return {};
  }
}

const READING = { kind: 'mode', label: 'commands that only read' };

const READING_PROGRAMS = new Set(['ls', 'pwd', 'cat', 'head', 'tail', 'wc', 'whoami', 'echo']);

/** Whether a command is one call of a known reading program, with relative paths and without characters that a shell interprets. */
export function isReadOnlyCommand(command) {
  if (!/^[A-Za-z0-9 _./:,@+=-]+$/.test(command)) return false;
  const words = command.trim().split(/ +/);
  if (words.some((word) => word.startsWith('/') || word.split('/').includes('..') || word.includes('='))) return false;
  return READING_PROGRAMS.has(words[0]) || (words[0] === 'git' && words[1] === 'status' && words.length === 2);
}
