/** Short texts about tool calls: a one-line summary of the input, and a preview of the output. */

import { formatSize } from './file-size.ts';
import { formatJson } from './format-json.ts';
import { outputText } from './parse-message.ts';
import { terminalText } from './terminal-text.ts';
import { isShellCall } from './tool-arguments.ts';

type Fields = Record<string, unknown>;

/** The fields that describe a call best, in order of preference. */
const SUMMARY_FIELDS = ['command', 'file_path', 'path', 'filePath', 'pattern', 'query', 'url', 'description', 'prompt', 'title'];

/** The summary fields that hold a path. */
const PATH_FIELDS = ['file_path', 'path', 'filePath'];

/** Returns the title of a tool call. */
export const toolTitle = (name: string, input: unknown): string => (isShellCall(name, input) ? 'Run command' : name);

/** Returns the summary of a tool call if the summary is the path of one file. */
export function summaryPath(input: unknown): string | undefined {
  if (typeof input !== 'object' || input === null) return undefined;
  const summary = summarizeInput(input);
  const paths = [...PATH_FIELDS.map((name) => (input as Fields)[name]), ...changedPaths(input as Fields)];
  return summary !== '' && paths.includes(summary) ? summary : undefined;
}

const changedPaths = ({ changes }: Fields): unknown[] =>
  Array.isArray(changes) ? changes.map((change: Fields | null) => change?.file_path) : [];

/** Summarizes the input of a tool call in one line. */
export function summarizeInput(input: unknown): string {
  if (typeof input === 'string') return firstLine(input);
  if (typeof input !== 'object' || input === null) return '';
  const fields = input as Fields;
  if (Array.isArray(fields.command))
    return firstLine(fields.command.map((word) => (typeof word === 'string' ? word : formatJson(word))).join(' '));
  const named = SUMMARY_FIELDS.map((name) => fields[name]).find((value) => typeof value === 'string' && value !== '');
  if (typeof named === 'string') return firstLine(named);
  const paths = changedPaths(fields);
  if (paths.length > 0 && paths.every((path) => typeof path === 'string')) return firstLine([...new Set(paths)].join(', '));
  const first = Object.values(fields).find((value) => typeof value === 'string');
  return firstLine(typeof first === 'string' ? first : outputText(input));
}

const PREVIEW_LINES = 6;
/** In characters, because one line may be very long. */
const PREVIEW_LENGTH = 600;

/**
 * Returns the start of an output as `text`. `more` describes the omitted part, such as "40 more lines"; it is empty for a whole output.
 * @param imageCount the number of images in the output
 * @param cutBytes the full size of the messages of which `output` contains only excerpts
 */
export function previewOutput(output: string, imageCount: number, cutBytes = 0): { text: string; more: string } {
  const clean = terminalText(output);
  const lines = clean.split('\n');
  const first = lines.slice(0, PREVIEW_LINES).join('\n');
  const text = first.slice(0, PREVIEW_LENGTH);
  const moreLines = lines.length - PREVIEW_LINES;
  const more = [
    cutBytes > 0
      ? `${formatSize(cutBytes)} in total`
      : text.length < first.length
        ? pluralize(clean.length - text.length, 'more character')
        : moreLines > 0 && pluralize(moreLines, 'more line'),
    imageCount > 0 && pluralize(imageCount, 'image'),
  ];
  return { text, more: more.filter(Boolean).join(', ') };
}

export const pluralize = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`;

function firstLine(text: string): string {
  const [line = '', ...otherLines] = text.trim().split('\n');
  return otherLines.length > 0 ? `${line} …` : line;
}
