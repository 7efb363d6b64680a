/** Short texts about tool calls: the title, and a one-line summary of the input. */

import { formatJson } from './format-json.ts';
import { outputText } from './parse-message.ts';
import { isShellCall, parseQuestions } from './tool-arguments.ts';

type Fields = Record<string, unknown>;

/** The fields that describe a call best, in order of preference. */
const SUMMARY_FIELDS = ['command', 'file_path', 'path', 'filePath', 'pattern', 'query', 'url', 'description', 'prompt', 'title'];

/** The summary fields that hold a path. */
const PATH_FIELDS = ['file_path', 'path', 'filePath'];

/** Returns the title of a tool call. */
export function toolTitle(name: string, input: unknown): string {
  const { length } = parseQuestions(input).questions;
  if (length > 0) return length === 1 ? 'Question' : `${length} questions`;
  return isShellCall(name, input) ? 'Run command' : name;
}

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
  const [question] = Array.isArray(fields.questions) ? (fields.questions as (Fields | null)[]) : [];
  if (typeof question?.question === 'string') return firstLine(question.question);
  const paths = changedPaths(fields);
  if (paths.length > 0 && paths.every((path) => typeof path === 'string')) return firstLine([...new Set(paths)].join(', '));
  const first = Object.values(fields).find((value) => typeof value === 'string');
  return firstLine(typeof first === 'string' ? first : outputText(input));
}

export const pluralize = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`;

function firstLine(text: string): string {
  const [line = '', ...otherLines] = text.trim().split('\n');
  return otherLines.length > 0 ? `${line} …` : line;
}
