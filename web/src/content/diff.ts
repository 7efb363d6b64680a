/** Diffs, line by line, with the words that changed in a line. */

import { diffWordsWithSpace, parsePatch, structuredPatch } from 'diff';

/** A run of characters of a line. */
export interface Run {
  text: string;
  isChanged: boolean;
}

/** A line of a hunk. Numbers count from 1. */
export interface Line {
  kind: 'same' | 'added' | 'removed';
  before: number | null;
  after: number | null;
  runs: Run[];
}

/** Lines that stand together. */
export interface Hunk {
  header: string;
  lines: Line[];
}

/** Lines longer than this are not compared by words, which would take long. */
const MAX_COMPARED = 1000;

/** The hunks of a unified diff of one file; none for one without lines, such as a binary file's. Null for what is no diff. */
export function hunksOf(patch: string): Hunk[] | null {
  try {
    return parsePatch(patch).flatMap(({ hunks }) => hunks.map(toHunk));
  } catch {
    return null;
  }
}

/** Two texts that differ in more lines than this are not compared: it would hold up the page. */
const MAX_EDITS = 2000;

/** The hunks between two texts: one, with every line of both, as long as they have any. */
export function hunksBetween(before: string, after: string): Hunk[] {
  const patch = structuredPatch('', '', before, after, '', '', { context: Number.MAX_SAFE_INTEGER, maxEditLength: MAX_EDITS });
  const hunks = patch?.hunks ?? [replacing(before, after)];
  return (hunks.length > 0 || before === '' ? hunks : [unchanged(before)]).map(toHunk);
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

function unchanged(text: string): Parsed {
  const lines = linesOf(text).map((line) => ` ${line}`);
  return { oldStart: 1, oldLines: lines.length, newStart: 1, newLines: lines.length, lines };
}

/** All of a text in place of another, where comparing them would take too long. */
function replacing(before: string, after: string): Parsed {
  const [old, next] = [linesOf(before), linesOf(after)];
  const lines = [...old.map((line) => `-${line}`), ...next.map((line) => `+${line}`)];
  return { oldStart: 1, oldLines: old.length, newStart: 1, newLines: next.length, lines };
}

/** The first lines of a diff. */
export function firstLines(hunks: Hunk[], count: number): Hunk[] {
  let left = count;
  return hunks.flatMap((hunk) => {
    const lines = hunk.lines.slice(0, left);
    left -= lines.length;
    return lines.length > 0 ? [{ ...hunk, lines }] : [];
  });
}

type Parsed = ReturnType<typeof parsePatch>[number]['hunks'][number];

function toHunk({ oldStart, oldLines, newStart, newLines, lines }: Parsed): Hunk {
  let before = oldStart;
  let after = newStart;
  const out: Line[] = [];
  for (const line of lines) {
    const runs = [{ text: line.slice(1), isChanged: false }];
    // `\ No newline at end of file` belongs to the line before it.
    if (line.startsWith('\\')) continue;
    if (line.startsWith('+')) out.push({ kind: 'added', before: null, after: after++, runs });
    else if (line.startsWith('-')) out.push({ kind: 'removed', before: before++, after: null, runs });
    else out.push({ kind: 'same', before: before++, after: after++, runs });
  }
  markWords(out);
  // The parser has counted the start of an empty side up, to the line after it.
  const start = (line: number, count: number) => (count === 0 ? line - 1 : line);
  return { header: `@@ -${start(oldStart, oldLines)},${oldLines} +${start(newStart, newLines)},${newLines} @@`, lines: out };
}

/** Where as many lines came as went, each is compared with the one in its place. */
function markWords(lines: Line[]): void {
  for (let at = 0; at < lines.length; ) {
    const removed = runFrom(lines, at, 'removed');
    const added = runFrom(lines, at + removed.length, 'added');
    if (removed.length === added.length) removed.forEach((line, i) => compare(line, added[i]));
    at += Math.max(1, removed.length + added.length);
  }
}

function runFrom(lines: Line[], start: number, kind: Line['kind']): Line[] {
  let end = start;
  while (lines[end]?.kind === kind) end += 1;
  return lines.slice(start, end);
}

function compare(removed: Line, added: Line | undefined): void {
  const from = removed.runs[0]?.text ?? '';
  const to = added?.runs[0]?.text ?? '';
  if (!added || from.length > MAX_COMPARED || to.length > MAX_COMPARED) return;
  const changes = diffWordsWithSpace(from, to);
  const kept = changes.filter((one) => !one.added && !one.removed).reduce((sum, { value }) => sum + value.trim().length, 0);
  // Lines that have little in common are not the same line.
  if (kept * 3 < Math.min(from.length, to.length)) return;
  removed.runs = changes.filter((one) => !one.added).map(({ value, removed: isChanged }) => ({ text: value, isChanged }));
  added.runs = changes.filter((one) => !one.removed).map(({ value, added: isChanged }) => ({ text: value, isChanged }));
}
