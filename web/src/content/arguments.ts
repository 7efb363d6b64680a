/**
 * What a call is asked to do, in pieces that views can show. Whoever allows a call has to see all of it, whatever its
 * agent made it look like: a piece is taken out of the arguments, and what nobody took is shown as it is.
 */

import { isObject, isText } from '../checked.ts';
import { json } from './json.ts';

/** Something that no view of its own shows. */
export interface Field {
  /** Where it stands, such as `env` or `edits[1].insert`; empty for arguments that are no object. */
  name: string;
  /** A text itself, and JSON for everything else. */
  text: string;
}

/** A change of a file that a call would make or has made. */
export interface Edit {
  path: string;
  before: string;
  after: string;
}

/** A call's arguments, all of them. */
export interface CallArguments {
  /** As it is typed. */
  command: string | undefined;
  edits: Edit[];
  rest: Field[];
}

/** A question that an agent puts to the person. */
export interface Question {
  /** The name that its answer goes under. */
  key: string;
  text: string;
  header: string;
  options: { label: string; description: string }[];
  isMultiple: boolean;
}

/** What is left of an object while its fields are taken out. */
class Fields {
  readonly #left: Map<string, unknown>;

  constructor(from: object) {
    this.#left = new Map(Object.entries(from));
  }

  /** Everything was taken. */
  get isEmpty(): boolean {
    return this.#left.size === 0;
  }

  /** A field, when it is of that kind. */
  see<T>(name: string, isRight: (value: unknown) => value is T): T | undefined {
    const value = this.#left.get(name);
    return isRight(value) ? value : undefined;
  }

  /** Takes a field, when it is of that kind. */
  take<T>(name: string, isRight: (value: unknown) => value is T): T | undefined {
    const value = this.see(name, isRight);
    if (value !== undefined) this.#left.delete(name);
    return value;
  }

  /** What nobody took. */
  rest(place = ''): Field[] {
    return [...this.#left].map(([name, value]) => field(`${place}${name}`, value));
  }
}

const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
const isList = (value: unknown): value is unknown[] => Array.isArray(value);

const field = (name: string, value: unknown): Field => ({ name, text: isText(value) && value !== '' ? value : json(value) });

/** The arguments of a call. */
export function argumentsOf(input: unknown): CallArguments {
  if (input === undefined || input === null) return { command: undefined, edits: [], rest: [] };
  if (!isObject(input)) return { command: undefined, edits: [], rest: [field('', input)] };
  const fields = new Fields(input);
  const { edits, rest } = takeEdits(fields);
  return { command: fields.take('command', isText), edits, rest: [...fields.rest(), ...rest] };
}

/** The names that agents give the file of an edit. */
const PATHS = ['file_path', 'filePath', 'path'];

/** Takes a replaced text, several of them, or a whole new file. */
function takeEdits(fields: Fields): { edits: Edit[]; rest: Field[] } {
  const name = PATHS.find((one) => fields.see(one, isText) !== undefined);
  if (name === undefined || !hasEdits(fields)) return { edits: [], rest: [] };
  const path = fields.take(name, isText) ?? '';
  const whole = takeReplaced(fields);
  if (whole) return { edits: [{ path, ...whole }], rest: [] };
  const edits: Edit[] = [];
  const rest: Field[] = [];
  for (const [at, one] of (fields.take('edits', isList) ?? []).entries()) {
    const its = isObject(one) ? new Fields(one) : null;
    const replaced = its && takeReplaced(its);
    if (replaced) edits.push({ path, ...replaced });
    rest.push(...(its && replaced ? its.rest(`edits[${at}].`) : [field(`edits[${at}]`, one)]));
  }
  if (edits.length > 0) return { edits, rest };
  return { edits: [{ path, before: '', after: fields.take('content', isText) ?? '' }], rest };
}

/** Whether there is an edit to be taken. */
function hasEdits(fields: Fields): boolean {
  if (isReplaced(fields) || fields.see('content', isText) !== undefined) return true;
  return fields.see('edits', isList)?.some((one) => isObject(one) && isReplaced(new Fields(one))) ?? false;
}

const isReplaced = (fields: Fields) => fields.see('old_string', isText) !== undefined && fields.see('new_string', isText) !== undefined;

function takeReplaced(fields: Fields): Omit<Edit, 'path'> | null {
  if (!isReplaced(fields)) return null;
  return { before: fields.take('old_string', isText) ?? '', after: fields.take('new_string', isText) ?? '' };
}

/** A name of an answer that says nothing to a person, and need not be shown. */
const isPlainName = (value: unknown): value is string => isText(value) && /^[\w.:-]{1,64}$/.test(value);

/**
 * The questions of a permission request; none when it asks for anything else besides, as an answer allows all of it.
 * `rest` is what else stands in the questions.
 */
export function questionsOf(input: unknown): { questions: Question[]; rest: Field[] } {
  const fields = isObject(input) ? new Fields(input) : null;
  const asked = fields?.take('questions', isList);
  if (!asked || !fields?.isEmpty) return { questions: [], rest: [] };
  const questions: Question[] = [];
  const rest: Field[] = [];
  for (const [at, one] of asked.entries()) {
    const place = `questions[${at}]`;
    const its = isObject(one) ? new Fields(one) : null;
    const text = its?.take('question', isText);
    if (!its || text === undefined) {
      rest.push(field(place, one));
      continue;
    }
    const { options, rest: others } = optionsOf(its.take('options', isList) ?? [], place);
    const key = its.see('id', isText) ?? text;
    its.take('id', isPlainName);
    questions.push({ key, text, header: its.take('header', isText) ?? '', options, isMultiple: its.take('multiSelect', isBoolean) ?? false });
    rest.push(...its.rest(`${place}.`), ...others);
  }
  return questions.length > 0 ? { questions, rest } : { questions, rest: [] };
}

function optionsOf(all: unknown[], place: string): { options: Question['options']; rest: Field[] } {
  const options: Question['options'] = [];
  const rest: Field[] = [];
  for (const [at, one] of all.entries()) {
    const its = isObject(one) ? new Fields(one) : null;
    const label = isText(one) ? one : its?.take('label', isText);
    if (label === undefined) {
      rest.push(field(`${place}.options[${at}]`, one));
      continue;
    }
    options.push({ label, description: its?.take('description', isText) ?? '' });
    rest.push(...(its?.rest(`${place}.options[${at}].`) ?? []));
  }
  return { options, rest };
}
