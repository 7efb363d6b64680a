/**
 * Splits the arguments of a tool call into the parts that views can show: a command, edits, questions. All remaining fields are
 * listed unchanged, because the user must see the whole call before approving it.
 */

import { isObject, isString } from '../api/validate.ts';
import { formatJson } from './format-json.ts';

/** A field that is shown unchanged. */
export interface ArgumentField {
  /** The field's path, such as `env` or `edits[1].insert`; empty if the arguments are not an object. */
  name: string;
  /** The value if it is a string; otherwise its JSON. */
  text: string;
}

/** A file change that a call makes. */
export interface Edit {
  path: string;
  before: string;
  after: string;
}

/** The complete arguments of a call. */
export interface ToolArguments {
  command: string | undefined;
  edits: Edit[];
  otherFields: ArgumentField[];
}

/** A question of an agent to the user. */
export interface Question {
  /** The key of the question's answer. */
  key: string;
  text: string;
  header: string;
  options: { label: string; description: string }[];
  isMultiple: boolean;
}

/** The fields of an object that have not been taken yet. */
class RemainingFields {
  readonly #fields: Map<string, unknown>;

  constructor(from: object) {
    this.#fields = new Map(Object.entries(from));
  }

  get isEmpty(): boolean {
    return this.#fields.size === 0;
  }

  /** Returns a field if it has the expected type. */
  peek<T>(name: string, isType: (value: unknown) => value is T): T | undefined {
    const value = this.#fields.get(name);
    return isType(value) ? value : undefined;
  }

  /** Removes and returns a field if it has the expected type. */
  take<T>(name: string, isType: (value: unknown) => value is T): T | undefined {
    const value = this.peek(name, isType);
    if (value !== undefined) this.#fields.delete(name);
    return value;
  }

  /** Returns the fields that were not taken. */
  otherFields(prefix = ''): ArgumentField[] {
    return [...this.#fields].map(([name, value]) => toField(`${prefix}${name}`, value));
  }
}

const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
const isList = (value: unknown): value is unknown[] => Array.isArray(value);

const toField = (name: string, value: unknown): ArgumentField => ({
  name,
  text: isString(value) && value !== '' ? value : formatJson(value),
});

export function parseArguments(input: unknown): ToolArguments {
  if (input === undefined || input === null) return { command: undefined, edits: [], otherFields: [] };
  if (!isObject(input)) return { command: undefined, edits: [], otherFields: [toField('', input)] };
  const fields = new RemainingFields(input);
  const { edits, otherFields } = takeEdits(fields);
  return { command: fields.take('command', isString), edits, otherFields: [...fields.otherFields(), ...otherFields] };
}

/** The field names that agents use for the file of an edit. */
const PATH_FIELDS = ['file_path', 'filePath', 'path'];

interface Edits {
  edits: Edit[];
  otherFields: ArgumentField[];
}

/** Takes the edits of the file that the fields name, and the edits in the list `changes`. */
function takeEdits(fields: RemainingFields): Edits {
  const { edits, otherFields } = takeFileEdits(fields);
  const changes = fields.peek('changes', isList);
  if (!changes?.some((item) => isObject(item) && takeFileEdits(new RemainingFields(item)).edits.length > 0)) return { edits, otherFields };
  for (const [index, item] of (fields.take('changes', isList) ?? []).entries()) {
    const itemFields = isObject(item) ? new RemainingFields(item) : null;
    const change = itemFields && takeFileEdits(itemFields);
    if (change && change.edits.length > 0) {
      const prefix = `changes[${index}].`;
      edits.push(...change.edits);
      otherFields.push(...itemFields.otherFields(prefix), ...change.otherFields.map(({ name, text }) => ({ name: prefix + name, text })));
    } else {
      otherFields.push(toField(`changes[${index}]`, item));
    }
  }
  return { edits, otherFields };
}

/** Takes one replacement, a list of replacements, or the content of a new file. */
function takeFileEdits(fields: RemainingFields): Edits {
  const name = PATH_FIELDS.find((item) => fields.peek(item, isString) !== undefined);
  if (name === undefined || !hasEdits(fields)) return { edits: [], otherFields: [] };
  const path = fields.take(name, isString) ?? '';
  const single = takeReplacement(fields);
  if (single) return { edits: [{ path, ...single }], otherFields: [] };
  const edits: Edit[] = [];
  const otherFields: ArgumentField[] = [];
  for (const [index, item] of (fields.take('edits', isList) ?? []).entries()) {
    const itemFields = isObject(item) ? new RemainingFields(item) : null;
    const replacement = itemFields && takeReplacement(itemFields);
    if (replacement) edits.push({ path, ...replacement });
    otherFields.push(...(itemFields && replacement ? itemFields.otherFields(`edits[${index}].`) : [toField(`edits[${index}]`, item)]));
  }
  if (edits.length > 0) return { edits, otherFields };
  return { edits: [{ path, before: '', after: fields.take('content', isString) ?? '' }], otherFields };
}

function hasEdits(fields: RemainingFields): boolean {
  if (isReplacement(fields) || fields.peek('content', isString) !== undefined) return true;
  return fields.peek('edits', isList)?.some((item) => isObject(item) && isReplacement(new RemainingFields(item))) ?? false;
}

const isReplacement = (fields: RemainingFields) =>
  fields.peek('old_string', isString) !== undefined && fields.peek('new_string', isString) !== undefined;

function takeReplacement(fields: RemainingFields): Omit<Edit, 'path'> | null {
  if (!isReplacement(fields)) return null;
  return { before: fields.take('old_string', isString) ?? '', after: fields.take('new_string', isString) ?? '' };
}

/** The shells of the coding agents. A tool of an MCP server may have a similar name. */
const SHELL_TOOL = /^(bash|shell|powershell|terminal|exec_command|shell_command|run_shell_command)$/i;

/** Whether a call runs a command in a shell. Agents name their shells differently. */
export function isShellCall(tool: string, input: unknown): boolean {
  const { command } = (input ?? {}) as { command?: unknown };
  return SHELL_TOOL.test(tool) && (typeof command === 'string' || Array.isArray(command));
}

/** The tools by which agents present a plan, such as `ExitPlanMode`. */
const PLAN_TOOL = /plan|^SwitchMode$/i;

/** Returns the plan that a call presents, and all other fields. Returns null for a call that presents no plan. */
export function parsePlan(tool: string, input: unknown): { plan: string; otherFields: ArgumentField[] } | null {
  if (!PLAN_TOOL.test(tool) || !isObject(input) || !isString(input.plan)) return null;
  const { plan, ...otherInput } = input;
  const { command, edits, otherFields } = parseArguments(otherInput);
  return command === undefined && edits.length === 0 ? { plan, otherFields } : null;
}

/** Matches a question id that cannot contain a hidden message, so it need not be shown. */
const isPlainId = (value: unknown): value is string => isString(value) && /^[\w.:-]{1,64}$/.test(value);

/**
 * Returns the questions of a permission request. `otherFields`: what the list of questions contains besides the questions. If the request
 * has any field besides `questions`, returns no questions: an answer would approve that field too.
 */
export function parseQuestions(input: unknown): { questions: Question[]; otherFields: ArgumentField[] } {
  const fields = isObject(input) ? new RemainingFields(input) : null;
  const items = fields?.take('questions', isList);
  if (!items || !fields?.isEmpty) return { questions: [], otherFields: [] };
  const questions: Question[] = [];
  const otherFields: ArgumentField[] = [];
  for (const [index, item] of items.entries()) {
    const prefix = `questions[${index}]`;
    const itemFields = isObject(item) ? new RemainingFields(item) : null;
    const text = itemFields?.take('question', isString);
    if (!itemFields || text === undefined) {
      otherFields.push(toField(prefix, item));
      continue;
    }
    const { options, otherFields: otherOptionFields } = parseOptions(itemFields.take('options', isList) ?? [], prefix);
    const key = itemFields.peek('id', isString) ?? text;
    itemFields.take('id', isPlainId);
    questions.push({
      key,
      text,
      header: itemFields.take('header', isString) ?? '',
      options,
      isMultiple: itemFields.take('multiSelect', isBoolean) ?? false,
    });
    otherFields.push(...itemFields.otherFields(`${prefix}.`), ...otherOptionFields);
  }
  return questions.length > 0 ? { questions, otherFields } : { questions, otherFields: [] };
}

function parseOptions(list: unknown[], prefix: string): { options: Question['options']; otherFields: ArgumentField[] } {
  const options: Question['options'] = [];
  const otherFields: ArgumentField[] = [];
  for (const [index, item] of list.entries()) {
    const itemFields = isObject(item) ? new RemainingFields(item) : null;
    const label = isString(item) ? item : itemFields?.take('label', isString);
    if (label === undefined) {
      otherFields.push(toField(`${prefix}.options[${index}]`, item));
      continue;
    }
    options.push({ label, description: itemFields?.take('description', isString) ?? '' });
    otherFields.push(...(itemFields?.otherFields(`${prefix}.options[${index}].`) ?? []));
  }
  return { options, otherFields };
}
