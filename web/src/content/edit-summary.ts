/** A short form of the edits of a tool call: the number of changed lines, and the first changed lines. */

import { cutText } from './cut-text.ts';
import { changedLines } from './changed-lines.ts';
import { type Edit, parseArguments } from './tool-arguments.ts';

export interface EditSummary {
  added: number;
  removed: number;
  /** The first changed lines. If several files are changed, a line of kind `path` precedes the lines of each file. */
  lines: { kind: 'added' | 'removed' | 'path'; text: string }[];
  /** The number of lines that are left out. */
  moreLines: number;
}

const MAX_LINES = 6;
/** Limit on a line, in characters. */
const MAX_LINE_LENGTH = 300;

/** Limit on the changed lines of all edits of a call together. Edits beyond the limit are not compared, because that would block scrolling. */
const MAX_COMPARED_CHANGES = 400;

/** The summaries by input. A row is mounted again whenever it comes into view, and must not repeat the comparison. */
const cache = new WeakMap<object, EditSummary | undefined>();

/** Summarizes the edits of a call. Returns undefined if the call has no edits. */
export function summarizeEdits(input: unknown): EditSummary | undefined {
  if (typeof input !== 'object' || input === null) return undefined;
  if (!cache.has(input)) {
    const { edits } = parseArguments(input);
    cache.set(input, edits.length > 0 ? summarizeDiffs(edits) : undefined);
  }
  return cache.get(input);
}

function summarizeDiffs(edits: Edit[]): EditSummary {
  const hasSeveralFiles = new Set(edits.map(({ path }) => path)).size > 1;
  let remainingChanges = MAX_COMPARED_CHANGES;
  const lines = edits.flatMap(({ path, before, after }): EditSummary['lines'] => {
    const changed = changedLines(before, after, remainingChanges);
    remainingChanges = Math.max(0, remainingChanges - changed.length);
    return hasSeveralFiles ? [{ kind: 'path', text: path }, ...changed] : changed;
  });
  const count = (kind: string) => lines.filter((line) => line.kind === kind).length;
  const first = lines.slice(0, MAX_LINES).map(({ kind, text }) => ({ kind, text: cutText(text, MAX_LINE_LENGTH) }));
  return { added: count('added'), removed: count('removed'), lines: first, moreLines: lines.length - first.length };
}
