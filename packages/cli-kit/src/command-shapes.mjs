/** Finds the shape of a command in the table of commands: what stays the same in all commands that one approval covers. */

import { existsSync, lstatSync, statSync } from 'node:fs';
import path from 'node:path';
import { COMMANDS } from './command-table.mjs';
import { isInside } from './paths.mjs';
import { isChangeable, visiblePath } from './rule-paths.mjs';
import { parseLine } from './shell-command.mjs';

/**
 * The shape of a simple command. `words`: the program, its subcommands, and all other words that belong to the rule; `label`: for people.
 * @typedef {{words: string[], label: string}} Shape
 *
 * Where a command runs: its working directory, and the place of the session.
 * @typedef {import('./rule-paths.mjs').Place} Place
 * @typedef {Place & {cwd: string}} CommandPlace
 *
 * A parsed entry of the table. `options`: the kind of the value of each option.
 * @typedef {{kind: string | null, isOptional: boolean, isInRule: boolean}} Option
 * @typedef {{kind: string, isRepeated: boolean, isInRule: boolean}} Argument
 * @typedef {{options: Map<string, Option>, args: Argument[]}} Arguments
 * @typedef {Arguments & {words: string[], after: Arguments | null, covers: string | undefined}} Entry
 */

const OPTION = /^(-\[(?<letters>\w+)\]|(?<name>--?[\w-]+))(?:(?<bracket>\[)?=(?<kind>\w+)\]?)?(?<mark>!?)$/;
const ARGUMENT = /^(?<kind>\w+)(?<mark>!?)(?<star>\*?)$/;

/** @type {Entry[]} the entries with more words first */
const ENTRIES = COMMANDS.map(({ words, covers, after, ...own }) => ({
  words: words.split(' '),
  covers,
  ...readArguments(own),
  after: after ? readArguments(after) : null,
})).sort((a, b) => b.words.length - a.words.length);

/** @param {import('./command-table.mjs').Arguments} entry @returns {Arguments} */
function readArguments({ options = '', args = '' }) {
  const optionOf = (text) => {
    const { letters, name, bracket, kind = null, mark } = OPTION.exec(text).groups;
    const names = letters ? [...letters].map((letter) => `-${letter}`) : [name];
    return names.map((each) => [each, { kind, isOptional: bracket !== undefined, isInRule: mark !== '' }]);
  };
  const argumentOf = (text) => {
    const { kind, mark, star } = ARGUMENT.exec(text).groups;
    return { kind, isInRule: mark !== '', isRepeated: star !== '' };
  };
  const list = (text) => text.split(/\s+/).filter(Boolean);
  return { options: new Map(list(options).flatMap(optionOf)), args: list(args).map(argumentOf) };
}

const NUMBER = /^[+-]?\d+[a-zA-Z]?$/;
const isNumber = (text) => NUMBER.test(text);
const resolve = (text, { cwd }) => (path.isAbsolute(text) ? text : `${cwd}${path.sep}${text}`);
const canRead = (text, place) => visiblePath(resolve(text, place), place) !== null;
const canChange = (text, place) => isChangeable(resolve(text, place), place);
const statOf = (read, text, place) => read(resolve(text, place), { throwIfNoEntry: false });

/** Whether a word is a path or a revision of git, such as `HEAD~1`, `main..dev` or `HEAD:src/a.ts`. */
const isGitObject = (text, place) => !text.startsWith(':') && text.split(':').every((part) => canRead(part, place));

/** Whether each kind of arguments accepts a word. @type {Record<string, (text: string, place: CommandPlace) => boolean>} */
const KINDS = {
  text: () => true,
  pretty: (text) => !/%[-+ ]?G/.test(text),
  number: isNumber,
  name: (text) => /^[A-Za-z0-9][\w:.-]*$/.test(text),
  lines: (text) => /^\d+(,(\d+|\$))?p$/.test(text),
  format: (text) => text.startsWith('+'),
  path: (text, place) => text === '-' || canRead(text, place),
  object: isGitObject,
  package: (text, place) => canRead(text.replace(/\/\.\.\.$/, ''), place),
  // Pytest reads further arguments from a file `@FILE`.
  testcase: (text, place) => !text.startsWith('@') && canRead(text.split('::', 1)[0], place),
  change: canChange,
  // A folder may contain links, which lead elsewhere from another place.
  source: (text, place) => canChange(text, place) && statOf(lstatSync, text, place)?.isFile() === true,
  target: canRead,
};

/**
 * Returns the shapes of the commands of a line. A line may begin with `cd ROOT &&`, where ROOT is the session's directory.
 * @param {string} line
 * @param {Place} place
 * @param {string | null} cwd the working directory, resolved; null if it is unknown
 * @returns {Shape[] | null} null if a command has no shape
 */
export function shapesOf(line, place, cwd) {
  // PowerShell and cmd.exe read quotes and paths in another way.
  const parsed = process.platform === 'win32' ? null : parseLine(line);
  if (!parsed) return null;
  const [first, ...others] = parsed.commands;
  const startsInRoot = parsed.operators[0] === '&&' && isMoveTo(first, place.root);
  const commands = startsInRoot ? others : parsed.commands;
  const start = startsInRoot ? place.root : cwd;
  if (start === null) return null;
  const shapes = commands.map((words) => shapeOf(words, { ...place, cwd: start }));
  return shapes.every((shape) => shape !== null) ? shapes : null;
}

/** Whether a command only changes to this directory. @param {string[]} words @param {string} directory */
export const isMoveTo = (words, directory) => words.length === 2 && words[0] === 'cd' && words[1] === directory;

/** @param {string[]} words @param {CommandPlace} place @returns {Shape | null} */
function shapeOf(words, place) {
  const entry = ENTRIES.find((each) => each.words.every((word, index) => words[index] === word));
  if (!entry || (entry.words[0] === 'git' && mayBeRepositoryItself(place))) return null;
  const found = readWords(words.slice(entry.words.length), entry, place);
  if (!found) return null;
  const ruleWords = [...entry.words, ...[...new Set(found.ruleOptions)].sort(), ...found.ruleArgs];
  const folder = path.relative(place.root, place.cwd);
  const where = folder === '' ? '' : ` in ${folder}`;
  return { words: ruleWords, label: `\`${ruleWords.join(' ')}\`${entry.covers ? ` with ${entry.covers}` : ''}${where}` };
}

/**
 * Whether git may take a visible folder for a repository. The agent may have written its files, and their configuration can name programs.
 * Git reads `HEAD` and the other files of a repository in a folder without `.git`.
 */
function mayBeRepositoryItself({ root, cwd }) {
  for (let folder = cwd; isInside(root, folder); folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, '.git'))) return false;
    if (lstatSync(path.join(folder, 'HEAD'), { throwIfNoEntry: false })) return true;
  }
  return false;
}

/**
 * Reads the words after the program and its subcommands.
 * @param {string[]} words
 * @param {Arguments & {after?: Arguments | null}} entry
 * @param {CommandPlace} place
 * @returns {{ruleOptions: string[], ruleArgs: string[]} | null} null if the entry does not describe all words
 */
function readWords(words, entry, place) {
  const ruleOptions = [];
  const args = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at];
    if (word === '--') {
      const rest = words.slice(at + 1);
      // Some programs still read options after `--`, such as `find -- . -delete` and `pytest -- -p x`.
      if (entry.after ? !readWords(rest, entry.after, place) : rest.some((each) => each.startsWith('-'))) return null;
      if (!entry.after) args.push(...rest);
      break;
    }
    if (!word.startsWith('-') || word === '-') {
      args.push(word);
      continue;
    }
    // Programs of BSD read an option after the first argument as a path.
    if (args.length > 0 && !canRead(word, place)) return null;
    const found = readOption(word, words[at + 1], entry.options, place);
    if (!found) return null;
    ruleOptions.push(...found.inRule);
    if (found.takesNext) at += 1;
  }
  const ruleArgs = readArgs(args, entry.args, place);
  return ruleArgs && { ruleOptions, ruleArgs };
}

/**
 * Reads a word with an option, or with several short options.
 * @param {string} word
 * @param {string | undefined} next
 * @param {Map<string, Option>} options
 * @param {CommandPlace} place
 * @returns {{inRule: string[], takesNext: boolean} | null}
 */
function readOption(word, next, options, place) {
  const end = (option, name, value) => {
    const isComplete = option.kind === null || (value === undefined && option.isOptional);
    const takesNext = !isComplete && value === undefined;
    const given = takesNext ? next : value;
    // A separate value that looks like an option may be one.
    const isValue = isComplete ? value === undefined : given !== undefined && KINDS[option.kind](given, place);
    const isSafe = isValue && (!takesNext || !given.startsWith('-') || isNumber(given));
    return isSafe ? { inRule: option.isInRule ? [isComplete ? name : `${name}=${given}`] : [], takesNext } : null;
  };
  const [, name, value] = /^([^=]*)(?:=([^]*))?$/.exec(word);
  const whole = options.get(name);
  if (whole && (value === undefined || name.length > 2)) return end(whole, name, value);
  if (options.has('-NUM') && /^-\d+$/.test(word)) return { inRule: [], takesNext: false };
  if (word.startsWith('--')) return null;
  const inRule = [];
  for (let at = 1; at < word.length; at += 1) {
    const option = options.get(`-${word[at]}`);
    if (!option) return null;
    const value = option.kind === null ? undefined : word.slice(at + 1) || undefined;
    const found = end(option, `-${word[at]}`, value);
    if (!found) return null;
    inRule.push(...found.inRule);
    if (option.kind !== null) return { inRule, takesNext: found.takesNext };
  }
  return { inRule, takesNext: false };
}

/** Checks the arguments. Returns the arguments that belong to the rule. @returns {string[] | null} */
function readArgs(words, args, place) {
  const star = args.findIndex(({ isRepeated }) => isRepeated);
  if (star === -1 && words.length > args.length) return null;
  const after = star === -1 ? 0 : args.length - star - 1;
  const argumentAt = (index) => {
    if (star === -1 || index < star) return args[index];
    const fromEnd = words.length - index;
    return fromEnd <= after ? args[args.length - fromEnd] : args[star];
  };
  if (!words.every((word, index) => KINDS[argumentAt(index).kind](word, place))) return null;
  if (args.at(-1)?.kind === 'target' && !isTargetOf(words.slice(0, -1), words.at(-1), place)) return null;
  return words.filter((_, index) => argumentAt(index).isInRule);
}

/** Whether files may be copied to a path. Files that are copied into a folder keep their names. */
function isTargetOf(sources, target, place) {
  if (target === undefined) return false;
  if (!statOf(statSync, target, place)?.isDirectory()) return canChange(target, place);
  return sources.every((source) => canChange(path.join(resolve(target, place), path.basename(source)), place));
}
