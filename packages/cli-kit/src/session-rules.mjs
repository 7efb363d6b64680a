/**
 * The scope of an approval for the session. After the approval of a call, rules cover later calls of the same tool:
 * - after a command: commands of the same shape, for the commands in command-table.mjs. Otherwise exactly this command;
 * - after an edit: edits of files in the session's directory;
 * - after any other call: all calls, except commands.
 *
 * No rule covers a call that cannot be classified, so the user is asked again.
 */

import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { shapesOf } from './command-shapes.mjs';
import { isChangeable, visiblePath } from './rule-paths.mjs';

/**
 * What an approval covers. `key`: equal for all calls that the rule covers; `label`: a text for people, with the words of a command in
 * backticks, such as `` `git diff` with any revision or path ``.
 * @typedef {{kind: 'command' | 'edit' | 'tool', tool: string, label: string, key: string}} NewRule
 * @typedef {NewRule & {id: string}} Rule
 *
 * The rules that an approval of a call adds. A call is covered if each of them was added, or if one with `exactKey` was. A line of several
 * commands has several rules.
 * @typedef {{kind: NewRule['kind'], tool: string, label: string, rules: NewRule[], exactKey?: string}} Scope
 *
 * A call of a tool. `kind`: the kind of the call in the Agent Client Protocol, if the agent reports kinds.
 * @typedef {{tool: string, args: unknown, kind?: string}} ToolCall
 *
 * `shell`: what earlier commands have changed in the shell of later commands; `moves`: how many commands have
 * changed its directory.
 * @typedef {import('./rule-paths.mjs').Place & {shell: import('./shell-changes.mjs').ShellChange, moves?: number}} RulePlace
 */

/** Kinds of calls that change something. A rule covers such a call only if the arguments show what the call changes. */
const CHANGING_KINDS = ['execute', 'edit', 'delete', 'move', 'switch_mode'];

/** Arguments that only describe a call. All other arguments of a command are part of its scope. */
const DESCRIPTIONS = ['description', 'note', 'title', 'reason', 'timeout', 'timeout_ms'];

/** Arguments with the working directory of a command. */
const DIRECTORIES = ['cwd', 'workdir', 'directory', 'dir_path'];

const EDIT_FIELDS = ['file_path', 'old_string', 'new_string', 'content', 'edits', 'changes', 'replace_all'];

/** Limit on a command, in characters. A longer command cannot be approved for the session, because a request shows only its start. */
const MAX_COMMAND_CHARS = 20_000;

const MAX_LABEL_CHARS = 80;

/** Matches a word of a list that means the same in a line. */
const PLAIN_WORD = /^[\w./:,@+%-][\w./:,@+=%-]*$/;

/** Matches the start of a line that runs in the same directory, whichever directory the shell is in. */
const ABSOLUTE_MOVE = /^cd (?:\/[\w./@+-]*|"\/[\w./@+ -]*") && /;

/** @returns {value is Record<string, any>} */
const isObject = (/** @type {unknown} */ value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** @returns {value is string} */
const isText = (/** @type {unknown} */ value) => typeof value === 'string';

/**
 * Returns the scope that an approval of a call for the session covers.
 * @param {ToolCall} call
 * @param {RulePlace} place
 * @returns {Scope | null} null if only this call can be approved
 */
export function scopeOf({ tool, args = {}, kind }, place) {
  if (!isObject(args) || args.questions !== undefined || args.plan !== undefined) return null;
  if (args.command !== undefined) return scopeOfCommand({ tool, args, kind }, place);
  // If an agent reports kinds, only the kind decides: a tool that publishes a file may have the same arguments as an edit.
  const isEdit = kind === 'edit' || (kind === undefined && EDIT_FIELDS.some((name) => name !== 'file_path' && args[name] !== undefined));
  if (isEdit) return areChangeable(editedPaths(args), place) ? toScope(editRule(tool, place.root)) : null;
  return CHANGING_KINDS.includes(kind) ? null : toScope(toolRule(tool));
}

/** @returns {Scope} */
const toScope = (/** @type {NewRule} */ rule) => ({ kind: rule.kind, tool: rule.tool, label: rule.label, rules: [rule] });

/** @returns {NewRule} */
const editRule = (tool, root) => ({ kind: 'edit', tool, label: `edits in ${path.basename(root) || root}`, key: 'edit' });

/** @returns {NewRule} */
const toolRule = (tool, label = tool) => ({ kind: 'tool', tool, label, key: JSON.stringify(['tool', tool]) });

/**
 * @param {{tool: string, args: Record<string, any>, kind?: string}} call
 * @param {RulePlace} place
 * @returns {Scope | null}
 */
function scopeOfCommand({ tool, args: { command, ...others }, kind }, place) {
  const isList = Array.isArray(command) && command.every(isText);
  const line = isList ? command.join(' ') : command;
  if (!isText(line) || line.trim() === '' || line.length > MAX_COMMAND_CHARS) return null;
  // Other arguments, such as a working directory or variables, change what a command does.
  const context = Object.entries(others)
    .filter(([name]) => !DESCRIPTIONS.includes(name))
    .sort();
  const toRule = (label, ...key) => ({ kind: /** @type {const} */ ('command'), tool, label, key: JSON.stringify([tool, ...key, context]) });
  const isInOwnDirectory = !isList && place.shell !== 'variables' && ABSOLUTE_MOVE.test(line);
  const shell = place.shell === 'nothing' || isInOwnDirectory ? [] : [place.shell, place.moves];
  const exactRule = toRule(`exactly \`${shorten(line)}\``, 'exact', command, ...shell);
  // A command of another tool, such as one of an MCP server, may be no command of this computer's shell.
  const hasShape = (kind === undefined || kind === 'execute') && (!isList || command.every((word) => PLAIN_WORD.test(word)));
  const shapes = hasShape ? findShapes(line, context, place) : null;
  const rules = shapes === null ? [exactRule] : uniqueRules(shapes.map(({ label, words }) => toRule(label, 'shape', isList, words)));
  return { kind: 'command', tool, label: rules.map(({ label }) => label).join(' and '), rules, exactKey: exactRule.key };
}

/** Returns the shapes of the commands of a line; null if a rule may cover only exactly this line. */
function findShapes(line, context, place) {
  if (place.shell === 'variables') return null;
  const directories = context.filter(([name]) => DIRECTORIES.includes(name));
  const isKnown = ([name, value]) =>
    DIRECTORIES.includes(name) || typeof value === 'boolean' || typeof value === 'number' || value === null;
  if (directories.length > 1 || !context.every(isKnown)) return null;
  if (directories.length === 0) return shapesOf(line, place, place.shell === 'directory' ? null : place.root);
  const [[, directory]] = directories;
  const below = isText(directory) ? visiblePath(path.resolve(place.root, directory), place) : null;
  return below === null ? null : shapesOf(line, place, path.join(place.root, below));
}

function shorten(line) {
  const text = line.trim().replaceAll(/\s+/g, ' ');
  return text.length > MAX_LABEL_CHARS ? `${text.slice(0, MAX_LABEL_CHARS).toWellFormed()}…` : text;
}

const uniqueRules = (rules) => rules.filter(({ key }, index) => rules.findIndex((rule) => rule.key === key) === index);

/** Returns the paths of the files that a call edits. Returns none if the call may do more than that. */
function editedPaths(args) {
  if (!isOnlyEdit(args)) return [];
  const changes = args.changes === undefined ? [args] : args.changes;
  return Array.isArray(changes) && changes.every(isChange) && (changes[0] === args || args.file_path === undefined)
    ? changes.map(({ file_path }) => file_path)
    : [];
}

/** Whether an object has no field that may do more than an edit, such as the path to which a file is moved. */
const isOnlyEdit = (fields) =>
  Object.entries(fields).every(
    ([name, value]) => EDIT_FIELDS.includes(name) || DESCRIPTIONS.includes(name) || typeof value === 'boolean' || typeof value === 'number',
  );

const isChange = (change) =>
  isObject(change) &&
  isOnlyEdit(change) &&
  isText(change.file_path) &&
  (isText(change.content) || Array.isArray(change.edits) || (isText(change.old_string) && isText(change.new_string)));

const areChangeable = (files, place) => files.length > 0 && files.every((file) => isChangeable(file, place));

/** The rules of a session, in the order in which they were added. */
export class SessionRules {
  /** @type {Rule[]} */
  #rules = [];

  get isEmpty() {
    return this.#rules.length === 0;
  }

  /** The rules as clients see them. */
  get published() {
    return this.#rules.map(({ id, kind, label }) => ({ id, kind, label }));
  }

  /** Returns what covers a call with this scope: a rule, or several rules together. @param {Scope | null} scope */
  find(scope) {
    if (!scope) return undefined;
    const { kind, tool, label, rules, exactKey } = scope;
    const exactRule = this.#rules.find(({ key }) => key === exactKey);
    if (exactRule) return exactRule;
    const coversTool = (rule) => rule.kind === 'tool' && rule.tool === tool && kind !== 'command';
    const isAdded = ({ key }) => this.#rules.some((rule) => rule.key === key || coversTool(rule));
    return rules.every(isAdded) ? { kind, label } : undefined;
  }

  /** @param {Scope} scope */
  add({ rules }) {
    for (const rule of rules) if (!this.#rules.some(({ key }) => key === rule.key)) this.#rules.push({ ...rule, id: randomUUID() });
  }

  /** Adds a rule for a tool that a client named. The rule covers no commands, and covers an edit only if a rule for edits would cover it. */
  addTool(name) {
    this.add(toScope(toolRule(name, `${name}, except commands`)));
  }

  /** @returns {boolean} whether there was a rule with this id */
  remove(id) {
    const count = this.#rules.length;
    this.#rules = this.#rules.filter((rule) => rule.id !== id);
    return this.#rules.length < count;
  }

  clear() {
    this.#rules = [];
  }
}
