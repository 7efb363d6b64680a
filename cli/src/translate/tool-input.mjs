/**
 * The name and the input of a tool call, in the fields that clients of the hub know: `command`, or `file_path` with `content` or with
 * `old_string` and `new_string`. Users approve the input, so a field is left out only if another field shows the same value.
 */

import { asList, hasFields, isObject, isText } from './values.mjs';

const MAX_NAME_CHARS = 100;
/** The number of unchanged lines that are kept around a change, because agents send the whole old and the whole new file. */
const CONTEXT_LINES = 3;

const NAMES_BY_KIND = {
  execute: 'Bash',
  edit: 'Edit',
  delete: 'Delete',
  move: 'Move',
  read: 'Read',
  search: 'Search',
  fetch: 'Fetch',
  think: 'Think',
  switch_mode: 'SwitchMode',
};

/** Whether the protocol defines a kind of calls. */
export const isKnownKind = (kind) => Object.hasOwn(NAMES_BY_KIND, kind);

const TODO_TOOLS = /^(todo_?write|update_?todos?)$/i;

const PATH_FIELDS = ['file_path', 'filePath', 'filepath', 'path', 'fileName'];
const OLD_FIELDS = ['old_string', 'oldString', 'old_str'];
const NEW_FIELDS = ['new_string', 'newString', 'new_str'];
const CONTENT_FIELDS = ['content', 'file_text'];
const PATCH_FIELDS = ['diff', 'patch'];

/**
 * Returns the name of a call's tool.
 * @param {import('./tool-calls.mjs').Call} call
 * @param {import('./agents.mjs').Quirks} quirks
 */
export function toolName({ toolCallId, kind, firstTitle, reportedNames }, { hasNameInId, shownToolNames = {} }) {
  const nameInId = hasNameInId && toolCallId.includes('__') ? toolCallId.split('__', 1)[0] : undefined;
  const todoTool = TODO_TOOLS.test(firstTitle) ? firstTitle : undefined;
  const reportedName = reportedNames.at(-1) ?? nameInId ?? todoTool;
  const name = reportedName ?? (isKnownKind(kind) ? NAMES_BY_KIND[kind] : undefined) ?? firstTitle ?? 'Tool';
  return (Object.hasOwn(shownToolNames, name) ? shownToolNames[name] : name).slice(0, MAX_NAME_CHARS).toWellFormed();
}

/** Whether a call replaces the session's todos. The title of a call may be the name of its tool. */
export const isTodoCall = ({ reportedNames, firstTitle, rawInput }) =>
  [...reportedNames, firstTitle].some((name) => isText(name) && TODO_TOOLS.test(name)) && Array.isArray(rawInput?.todos);

/** Whether the agent has sent any input of a call besides the working directory. */
export const hasInput = ({ rawInput, diffs }) =>
  diffs.length > 0 || (isObject(rawInput) ? Object.keys(rawInput).some((name) => name !== 'cwd') : rawInput !== undefined);

/**
 * Returns the whole input of a call.
 * @param {import('./tool-calls.mjs').Call} call
 * @param {import('./agents.mjs').Quirks} quirks
 * @returns {Record<string, any>}
 */
export function toolInput(call, quirks) {
  const fields = renameEditFields(withoutRepeatedCommand(isObject(call.rawInput) ? call.rawInput : {}));
  const base = call.diffs.length > 0 ? withDiffs(fields, call.diffs) : fields;
  if (call.rawInput !== undefined && !isObject(call.rawInput)) base.input = call.rawInput;
  // Some agents send a plan only as the description of the call.
  if (call.kind === 'switch_mode' && !hasFields(base) && isText(call.description)) base.plan = call.description;
  return withDescription(hasFields(base) ? base : deriveInput(call, quirks), call.description);
}

/**
 * Derives the input of a call without `rawInput` from its title and its locations.
 * @param {import('./tool-calls.mjs').Call} call
 * @param {import('./agents.mjs').Quirks} quirks
 */
function deriveInput({ kind, title, locations }, { usesCommandAsTitle }) {
  if (usesCommandAsTitle && kind === 'execute' && isText(title)) return { command: title };
  const paths = locations.map(({ path }) => path).filter(isText);
  const location = paths.length > 1 ? { paths } : paths.length === 1 ? { file_path: paths[0] } : {};
  return isText(title) && !paths.some((path) => path.endsWith(title)) ? { ...location, title } : location;
}

function withDescription(input, description) {
  if (!isText(description) || input.questions !== undefined) return input;
  if (JSON.stringify(input).includes(JSON.stringify(description).slice(1, -1))) return input;
  return { ...input, [input.description === undefined ? 'description' : 'note']: description };
}

/** Leaves out `commands` if this list contains only `command`. @param {Record<string, any>} input */
function withoutRepeatedCommand({ commands, ...otherFields }) {
  const isRepeated = Array.isArray(commands) && commands.length === 1 && commands[0] === otherFields.command;
  return isRepeated || commands === undefined ? otherFields : { ...otherFields, commands };
}

/** Renames the fields of an edit or of a new file. A field keeps its name if another field has the new name. */
function renameEditFields(fields) {
  const path = PATH_FIELDS.find((name) => isText(fields[name]));
  if (path === undefined) return { ...fields };
  const names = new Map([[path, 'file_path']]);
  const before = OLD_FIELDS.find((name) => typeof fields[name] === 'string');
  const after = NEW_FIELDS.find((name) => typeof fields[name] === 'string');
  const content = CONTENT_FIELDS.find((name) => typeof fields[name] === 'string');
  if (before && after) names.set(before, 'old_string').set(after, 'new_string');
  else if (content) names.set(content, 'content');
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const renamed = names.get(name) ?? name;
      return [renamed === name || !Object.hasOwn(fields, renamed) ? renamed : name, value];
    }),
  );
}

/** Adds the changes of files to the fields. Leaves out the fields whose values the changes show. */
function withDiffs(fields, diffs) {
  const otherFields = Object.fromEntries(Object.entries(fields).filter(([name, value]) => !isShownByDiffs(name, value, diffs)));
  const edits = diffs.map(toEdit);
  if (edits.length === 1) return shareFieldName(edits[0], otherFields) ? { ...edits[0], input: fields } : { ...edits[0], ...otherFields };
  const [{ file_path }] = edits;
  const isOneFile = edits.every((edit) => edit.file_path === file_path && edit.content === undefined);
  const changes = isOneFile ? { file_path, edits: edits.map(({ file_path: _, ...edit }) => edit) } : { changes: edits };
  return shareFieldName(changes, otherFields) ? { ...changes, input: fields } : { ...changes, ...otherFields };
}

const shareFieldName = (a, b) => Object.keys(a).some((name) => Object.hasOwn(b, name));

/** Whether the diffs contain the value of this field. */
function isShownByDiffs(name, value, diffs) {
  if (typeof value !== 'string') return false;
  if (PATH_FIELDS.includes(name)) return diffs.some(({ path }) => path === value);
  if (OLD_FIELDS.includes(name)) return diffs.some(({ oldText }) => oldText.includes(value));
  if (NEW_FIELDS.includes(name)) return diffs.some(({ newText }) => newText.includes(value));
  if (CONTENT_FIELDS.includes(name)) return diffs.some(({ newText }) => newText === value);
  return PATCH_FIELDS.includes(name) && diffs.length === 1 && isPatchOf(value, diffs[0]);
}

/** Whether every changed line of a unified diff is in the texts of a change. */
function isPatchOf(patch, { oldText, newText }) {
  const before = new Set(oldText.split('\n'));
  const after = new Set(newText.split('\n'));
  const hunks = patch.slice(Math.max(patch.search(/^@@/m), 0)).split('\n');
  return hunks.every((line) => {
    if (line.startsWith('-')) return before.has(line.slice(1));
    if (line.startsWith('+')) return after.has(line.slice(1));
    return line === '' || /^([ \\]|@@)/.test(line);
  });
}

/**
 * Converts a change of a file to an edit. For an existing file, the edit has only the changed lines, and {@link CONTEXT_LINES} lines before
 * and after them.
 */
function toEdit({ path, oldText, newText }) {
  if (oldText === '') return { file_path: path, content: newText };
  const [old_string, new_string] = trimCommonLines(oldText, newText);
  return { file_path: path, old_string, new_string };
}

function trimCommonLines(before, after) {
  const a = before.split('\n');
  const b = after.split('\n');
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const trim = (lines) => lines.slice(Math.max(start - CONTEXT_LINES, 0), lines.length - Math.max(end - CONTEXT_LINES, 0)).join('\n');
  return [trim(a), trim(b)];
}

/** Returns the changes of files in the content of a call. `oldText` is empty for a new file. */
export const diffsOf = (content) =>
  asList(content)
    .filter((item) => item?.type === 'diff' && isText(item.path) && typeof item.newText === 'string')
    .map(({ path, oldText, newText }) => ({ path, oldText: isText(oldText) ? oldText : '', newText }));
