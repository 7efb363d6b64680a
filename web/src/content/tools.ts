/** What a tool's call is about, in one line. */

import { json } from './json.ts';
import { plain } from './parse.ts';

type Fields = Record<string, unknown>;

/** The fields of a call's input that say most, most telling first. */
const TELLING = ['command', 'file_path', 'path', 'filePath', 'pattern', 'query', 'url', 'description', 'prompt', 'title'];

/** What a tool is asked to do. */
export function summarize(input: unknown): string {
  if (typeof input === 'string') return firstLine(input);
  if (typeof input !== 'object' || input === null) return '';
  const fields = input as Fields;
  if (Array.isArray(fields.command)) return firstLine(fields.command.map((word) => (typeof word === 'string' ? word : json(word))).join(' '));
  const named = TELLING.map((name) => fields[name]).find((value) => typeof value === 'string' && value !== '');
  if (typeof named === 'string') return firstLine(named);
  const first = Object.values(fields).find((value) => typeof value === 'string');
  return firstLine(typeof first === 'string' ? first : plain(input));
}

/** Colours and the like of a terminal, which a page cannot show. */
const CONTROLS = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007/g;

/** An output without a terminal's controls, and without what is empty at its end. */
export const plainOutput = (text: string): string => text.replace(CONTROLS, '').trimEnd();

/** Lines of an output that are seen before it is unfolded. */
const PREVIEW_LINES = 6;
/** So many characters of them at most: a line may be a whole file. */
const PREVIEW_LENGTH = 600;

/**
 * The beginning of an output, with what else there is in words; `more` is empty when this is all.
 * @param pictures how many came out beside the text
 */
export function previewOf(output: string, pictures: number): { text: string; more: string } {
  const clean = plainOutput(output);
  const lines = clean.split('\n');
  const first = lines.slice(0, PREVIEW_LINES).join('\n');
  const text = first.slice(0, PREVIEW_LENGTH);
  const rest = lines.length - PREVIEW_LINES;
  const more = [
    text.length < first.length ? count(clean.length - text.length, 'more character') : rest > 0 && count(rest, 'more line'),
    pictures > 0 && count(pictures, 'picture'),
  ];
  return { text, more: more.filter(Boolean).join(', ') };
}

const count = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;

function firstLine(text: string): string {
  const [line = '', ...rest] = text.trim().split('\n');
  return rest.length > 0 ? `${line} …` : line;
}
