/**
 * The scope of an approval for the session. After the approval of a call, a rule covers later calls of the same tool:
 * - after a command: commands with the same program and subcommand;
 * - after an edit: edits of files in the session's directory;
 * - after any other call: all calls, except commands.
 *
 * No rule covers a call that cannot be classified, so the user is asked again.
 */

import { randomUUID } from 'node:crypto';
import { lstatSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { commandScope } from './command-scope.mjs';
import { isInside } from './paths.mjs';
import { parseSimpleCommand } from './shell-command.mjs';

/**
 * The calls that an approval for the session covers. `key`: equal for all these calls; `label`: a text for people, such as
 * `git commit …`.
 * @typedef {{kind: 'command' | 'edit' | 'tool', tool: string, label: string, key: string}} Scope
 * @typedef {Scope & {id: string}} Rule
 *
 * A call of a tool. `kind`: the kind of the call in the Agent Client Protocol, if the agent reports kinds.
 * @typedef {{tool: string, args: unknown, kind?: string}} ToolCall
 */

/** Kinds of calls that change something. A rule covers such a call only if the arguments show what the call changes. */
const CHANGING_KINDS = ['execute', 'edit', 'delete', 'move', 'switch_mode'];

/** Arguments that only describe a call. All other arguments of a command are part of its scope. */
const DESCRIPTIONS = ['description', 'note', 'title', 'reason', 'timeout', 'timeout_ms'];

const EDIT_FIELDS = ['file_path', 'old_string', 'new_string', 'content', 'edits', 'changes', 'replace_all'];

/** @returns {value is Record<string, any>} */
const isObject = (/** @type {unknown} */ value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** @returns {value is string} */
const isText = (/** @type {unknown} */ value) => typeof value === 'string';

/**
 * Returns the scope that an approval of a call for the session covers.
 * @param {ToolCall} call
 * @param {string} root the session's directory, resolved
 * @returns {Scope | null} null if only this call can be approved
 */
export function scopeOf({ tool, args = {}, kind }, root) {
  if (!isObject(args) || args.questions !== undefined || args.plan !== undefined) return null;
  if (args.command !== undefined) return scopeOfCommand(tool, args);
  // If an agent reports kinds, only the kind decides: a tool that publishes a file may have the same arguments as an edit.
  const isEdit = kind === 'edit' || (kind === undefined && EDIT_FIELDS.some((name) => name !== 'file_path' && args[name] !== undefined));
  if (isEdit) return areEditable(editedPaths(args), root) ? editScope(tool, root) : null;
  return CHANGING_KINDS.includes(kind) ? null : toolScope(tool);
}

/** @returns {Scope} */
const editScope = (tool, root) => ({ kind: 'edit', tool, label: `edits in ${path.basename(root) || root}`, key: 'edit' });

/** @returns {Scope} */
const toolScope = (tool, label = tool) => ({ kind: 'tool', tool, label, key: JSON.stringify(['tool', tool]) });

/**
 * @param {string} tool
 * @param {Record<string, any>} args
 * @returns {Scope | null}
 */
function scopeOfCommand(tool, { command, ...others }) {
  const isList = Array.isArray(command) && command.length > 0 && command.every(isText);
  const words = isList ? command.map((text) => ({ text, isLiteral: true })) : isText(command) ? parseSimpleCommand(command) : null;
  const scope = words && commandScope(words);
  if (!scope) return null;
  // Other arguments, such as a working directory or variables, change what a command does.
  const context = Object.entries(others)
    .filter(([name]) => !DESCRIPTIONS.includes(name))
    .sort();
  const label = [...scope.words, ...(scope.hasMore ? ['…'] : [])].join(' ');
  return { kind: 'command', tool, label, key: JSON.stringify(['command', tool, isList, scope, context]) };
}

/** Returns the paths of the files that a call edits. Returns none if the call may do more than that. */
function editedPaths(args) {
  const isOnlyEdit = ([name, value]) =>
    EDIT_FIELDS.includes(name) || DESCRIPTIONS.includes(name) || typeof value === 'boolean' || typeof value === 'number';
  if (!Object.entries(args).every(isOnlyEdit)) return [];
  const changes = args.changes === undefined ? [args] : args.changes;
  return Array.isArray(changes) && changes.every(isChange) && (changes[0] === args || args.file_path === undefined)
    ? changes.map(({ file_path }) => file_path)
    : [];
}

const isChange = (change) =>
  isObject(change) &&
  isText(change.file_path) &&
  (isText(change.content) || Array.isArray(change.edits) || (isText(change.old_string) && isText(change.new_string)));

/**
 * Whether a rule may cover edits of these files. All files must be inside the session's directory, after links are followed. Hidden
 * files and folders are excluded, because they contain settings of git and of agents, which can run programs and change permissions.
 */
const areEditable = (files, root) => files.length > 0 && files.every((file) => isEditable(file, root));

function isEditable(file, root) {
  if (!path.isAbsolute(file) || file.includes('\0') || file.split(path.sep).includes('..')) return false;
  const target = resolveLinks(path.normalize(file));
  if (target === null || !isInside(root, target)) return false;
  return path
    .relative(root, target)
    .split(path.sep)
    .every((name) => name !== '' && !name.startsWith('.'));
}

/** Returns the path of a file without links. The file and its folders may be missing. Returns null if a link has no target. */
function resolveLinks(file) {
  for (let at = file, rest = []; ; rest = [path.basename(at), ...rest], at = path.dirname(at)) {
    try {
      lstatSync(at);
    } catch (error) {
      if (error.code !== 'ENOENT' || at === path.dirname(at)) return null;
      continue;
    }
    try {
      return path.join(realpathSync(at), ...rest);
    } catch {
      return null;
    }
  }
}

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

  /** Returns the rule that covers a call with this scope. @param {Scope | null} scope @returns {Rule | undefined} */
  find(scope) {
    if (!scope) return undefined;
    const coversTool = (rule) => rule.kind === 'tool' && rule.tool === scope.tool && scope.kind !== 'command';
    return this.#rules.find((rule) => rule.key === scope.key || coversTool(rule));
  }

  /** @param {Scope} scope */
  add(scope) {
    if (!this.#rules.some(({ key }) => key === scope.key)) this.#rules.push({ ...scope, id: randomUUID() });
  }

  /** Adds a rule for a tool that a client named. The rule covers no commands, and covers an edit only if a rule for edits would cover it. */
  addTool(name) {
    this.add(toolScope(name, `${name}, except commands`));
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
