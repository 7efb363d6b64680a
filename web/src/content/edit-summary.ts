/** A short form of the edits of a tool call: how many lines they change, and the first of these lines. */

import { diffTexts } from './diff.ts';
import type { Edit } from './tool-arguments.ts';

export interface EditSummary {
  added: number;
  removed: number;
  /** The first changed lines. In the changes of several files, a line of kind `path` precedes those of each file. */
  lines: { kind: 'added' | 'removed' | 'path'; text: string }[];
  /** The number of lines that are left out. */
  moreLines: number;
}

const MAX_LINES = 6;
/** In characters. */
const MAX_LINE_LENGTH = 300;

/** Comparing large texts takes a while, and a row is rendered again each time that it comes into view. */
const cache = new WeakMap<Edit[], EditSummary>();

export function summarizeEdits(edits: Edit[]): EditSummary {
  let summary = cache.get(edits);
  if (!summary) cache.set(edits, (summary = compare(edits)));
  return summary;
}

function compare(edits: Edit[]): EditSummary {
  const hasSeveralFiles = new Set(edits.map(({ path }) => path)).size > 1;
  const lines = edits.flatMap(({ path, before, after }): EditSummary['lines'] => {
    const all = diffTexts(before, after).flatMap((hunk) => hunk.lines);
    const changed = all.flatMap(({ kind, spans }) => (kind === 'same' ? [] : [{ kind, text: cut(spans.map(({ text }) => text).join('')) }]));
    return hasSeveralFiles ? [{ kind: 'path', text: path }, ...changed] : changed;
  });
  const count = (kind: string) => lines.filter((line) => line.kind === kind).length;
  return { added: count('added'), removed: count('removed'), lines: lines.slice(0, MAX_LINES), moreLines: Math.max(0, lines.length - MAX_LINES) };
}

const cut = (line: string) => (line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}…` : line);
