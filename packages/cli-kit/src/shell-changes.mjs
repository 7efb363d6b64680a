/** What a command changes in the shell of later commands, if the agent runs several commands in one shell. */

import { isMoveTo } from './command-shapes.mjs';
import { parseLine } from './shell-command.mjs';

/**
 * `directory`: the working directory may have changed; `variables`: variables, aliases or functions, too.
 * @typedef {'nothing' | 'directory' | 'variables'} ShellChange
 */

const MOVES = ['cd', 'pushd', 'popd', 'chdir'];

/** Words before a command that runs in the same shell. */
const PREFIXES = ['then', 'do', 'else', 'builtin', 'command', 'time'];

/** Matches a word that changes the directory, wherever it is in a line, and also if parts of the word are quoted. */
const MOVE = /(?<![\w./-])(cd|pushd|popd|chdir)(?![\w./-])/;

/** Matches a builtin, a function or an assignment at the start of a command. */
const SETTING =
  /(^|[\n;&|({]|\b(?:then|do|else|builtin|command)\b)\s*((alias|unalias|export|unset|set|shopt|setopt|declare|typeset|local|readonly|eval|source|\.|enable|hash|function|trap|exec)(?=\s|$)|\w+(=|\+=|\s*\(\)))/;

/**
 * Returns what a command line may change for the next command.
 * @param {string} line
 * @param {string} root the session's directory
 * @param {ShellChange} kept what the agent's shell keeps for the next command
 * @returns {ShellChange}
 */
export function shellChangeOf(line, root, kept) {
  if (kept === 'nothing') return 'nothing';
  const text = line.replaceAll(/["'\\]/g, '');
  if (kept === 'variables' && SETTING.test(text)) return 'variables';
  const commands = parseLine(line)?.commands;
  const moves = commands ? commands.some((words) => isMove(words) && !isMoveTo(words, root)) : MOVE.test(text);
  return moves ? 'directory' : 'nothing';
}

const isMove = (/** @type {string[]} */ [first, ...others]) =>
  MOVES.includes(first) || (PREFIXES.includes(first) && others.some((word) => MOVES.includes(word)));
