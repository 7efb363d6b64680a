/** What a command changes in the shell of later commands, if the agent runs several commands in one shell. */

import { isMoveTo } from './command-shapes.mjs';
import { MAX_LINE_CHARS, parseLine } from './shell-command.mjs';

/**
 * `directory`: the working directory may have changed; `variables`: variables, aliases or functions, too.
 * @typedef {'nothing' | 'directory' | 'variables'} ShellChange
 */

const MOVES = ['cd', 'pushd', 'popd', 'chdir'];

/** Words before a command that runs in the same shell. */
const PREFIXES = ['then', 'do', 'else', 'builtin', 'command', 'time'];

/** Matches a word that changes the directory, wherever it is in a line, and also if parts of the word are quoted. */
const MOVE = /(?<![\w./-])(cd|pushd|popd|chdir)(?![\w./-])/;

/** Words and characters after which a shell reads the first word of a command. */
const STARTS = /(?:^|[\n;&|(){!]|\b(?:if|then|elif|else|while|until|do|time|builtin|command|coproc)\b(?:\s+-\S+)*)[^\S\n]*/;

/** What changes the variables, aliases or functions of a shell at the start of a command. */
const SETTINGS = [
  /(?:alias|unalias|export|unset|set|shopt|setopt|unsetopt|declare|typeset|local|readonly|integer|eval|source|enable|disable|hash|unhash|function|unfunction|autoload|emulate|trap|exec)(?![\w./-])/,
  /\.\s/,
  // A variable that no one has exported, such as `f` in `for f in a b`, changes no later command.
  /(?:for|select|read|mapfile|readarray|getopts|let|wait)\s[^\n;&|]*(?:[A-Z_]|\bf?path\b)/,
  /(?:test|\[\[?|printf)\s[^\n;&|]*(?:-v|\w\[)/,
  /\w+(?:\[[^\]]*\])?(?:\+?=|\s*\(\s*\))/,
  // The first word is the value of an expansion.
  /[\w./-]*(?:[$`{*?]|\[[^\s[])/,
];

const SETTING = new RegExp(`${STARTS.source}(?:${SETTINGS.map(({ source }) => source).join('|')})|\\$\\{\\w+:?=`);

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
  // The search takes quadratic time.
  if (kept === 'variables' && (text.length > MAX_LINE_CHARS || SETTING.test(text))) return 'variables';
  const commands = parseLine(line)?.commands;
  const moves = commands ? commands.some((words) => isMove(words) && !isMoveTo(words, root)) : MOVE.test(text);
  return moves ? 'directory' : 'nothing';
}

const isMove = (/** @type {string[]} */ [first, ...others]) =>
  MOVES.includes(first) || (PREFIXES.includes(first) && others.some((word) => MOVES.includes(word)));
