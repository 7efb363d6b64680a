/** Line diffs in which the changed words of a line are marked. */

import { diffWordsWithSpace } from 'diff/lib/diff/word.js';
import { parsePatch } from 'diff/lib/patch/parse.js';
import { compareLines, type ParsedHunk, splitLines } from './changed-lines.ts';

/** A part of a line. */
export interface TextSpan {
  text: string;
  isChanged: boolean;
}

/** A line of a hunk. `before` and `after` are its numbers in the old and the new file, counted from 1. */
export interface DiffLine {
  kind: 'same' | 'added' | 'removed';
  before: number | null;
  after: number | null;
  spans: TextSpan[];
}

export interface Hunk {
  header: string;
  lines: DiffLine[];
}

/** Lines longer than this are not compared by words, because that takes too long. */
const MAX_WORD_DIFF_CHARS = 1000;

/** Parses a unified diff of one file. The diff of a binary file has no hunks. Returns null for an invalid diff, or for that of a merge. */
export function parseDiff(patch: string): Hunk[] | null {
  if (/^@@@/m.test(patch)) return null;
  try {
    return parsePatch(patch).flatMap(({ hunks }) => hunks.map(toHunk));
  } catch {
    return null;
  }
}

/** Says what a diff changes besides lines. Returns an empty list if only lines change. */
export function describePatch(patch: string, hasHunks: boolean): string[] {
  const [head = ''] = patch.split('\n@@', 1);
  const field = (name: string) => new RegExp(`^${name} (.*)$`, 'm').exec(head)?.[1];
  const [oldMode, newMode] = [field('old mode'), field('new mode')];
  const said: string[] = [];
  if (oldMode && newMode) said.push(`The mode changed from ${describeMode(oldMode)} to ${describeMode(newMode)}.`);
  if (hasHunks) return said;
  if (/^Binary files /m.test(patch)) said.push('Binary files cannot be compared.');
  else if (field('rename to')) said.push('The file was renamed. No lines changed.');
  else if (field('new file mode')) said.push('The new file is empty.');
  else if (field('deleted file mode')) said.push('The deleted file was empty.');
  return said.length === 0 ? ['No lines changed.'] : said;
}

const MODES = new Map([
  ['100644', 'a plain file'],
  ['100755', 'an executable file'],
  ['120000', 'a link'],
]);

const describeMode = (mode: string) => (MODES.has(mode) ? `${mode} (${MODES.get(mode)})` : mode);

/** Texts that differ in more lines than this are not compared, because that would block the page. */
const MAX_EDIT_LENGTH = 2000;

/** Compares two texts. Returns one hunk with all lines, or no hunks if both texts are empty. */
export function diffTexts(before: string, after: string): Hunk[] {
  const hunks = compareLines(before, after, MAX_EDIT_LENGTH);
  return (hunks.length > 0 || before === '' ? hunks : [unchangedHunk(before)]).map(toHunk);
}

function unchangedHunk(text: string): ParsedHunk {
  const lines = splitLines(text).map((line) => ` ${line}`);
  return { oldStart: 1, oldLines: lines.length, newStart: 1, newLines: lines.length, lines };
}

/** Returns the first `count` lines of the hunks. */
export function takeLines(hunks: Hunk[], count: number): Hunk[] {
  let remaining = count;
  return hunks.flatMap((hunk) => {
    const lines = hunk.lines.slice(0, remaining);
    remaining -= lines.length;
    return lines.length > 0 ? [{ ...hunk, lines }] : [];
  });
}

function toHunk({ oldStart, oldLines, newStart, newLines, lines }: ParsedHunk): Hunk {
  let before = oldStart;
  let after = newStart;
  const result: DiffLine[] = [];
  for (const line of lines) {
    const spans = [{ text: line.slice(1), isChanged: false }];
    // `\ No newline at end of file` belongs to the line before it.
    if (line.startsWith('\\')) continue;
    if (line.startsWith('+')) result.push({ kind: 'added', before: null, after: after++, spans });
    else if (line.startsWith('-')) result.push({ kind: 'removed', before: before++, after: null, spans });
    else result.push({ kind: 'same', before: before++, after: after++, spans });
  }
  markChangedWords(result);
  // For a side without lines, git's header has the number of the line before the hunk; the parser returns the next number.
  const start = (line: number, count: number) => (count === 0 ? line - 1 : line);
  return { header: `@@ -${start(oldStart, oldLines)},${oldLines} +${start(newStart, newLines)},${newLines} @@`, lines: result };
}

/** Marks the changed words where added lines replace the same number of removed lines. */
function markChangedWords(lines: DiffLine[]): void {
  for (let index = 0; index < lines.length; ) {
    const removed = takeRun(lines, index, 'removed');
    const added = takeRun(lines, index + removed.length, 'added');
    if (removed.length === added.length) removed.forEach((line, i) => diffWords(line, added[i]));
    index += Math.max(1, removed.length + added.length);
  }
}

function takeRun(lines: DiffLine[], start: number, kind: DiffLine['kind']): DiffLine[] {
  let end = start;
  while (lines[end]?.kind === kind) end += 1;
  return lines.slice(start, end);
}

function diffWords(removed: DiffLine, added: DiffLine | undefined): void {
  const from = removed.spans[0]?.text ?? '';
  const to = added?.spans[0]?.text ?? '';
  if (!added || from.length > MAX_WORD_DIFF_CHARS || to.length > MAX_WORD_DIFF_CHARS) return;
  const changes = diffWordsWithSpace(from, to);
  const commonLength = changes
    .filter((change) => !change.added && !change.removed)
    .reduce((sum, { value }) => sum + value.trim().length, 0);
  // Lines that have less than a third in common are unrelated.
  if (commonLength * 3 < Math.min(from.length, to.length)) return;
  removed.spans = changes.filter((change) => !change.added).map(({ value, removed: isChanged }) => ({ text: value, isChanged }));
  added.spans = changes.filter((change) => !change.removed).map(({ value, added: isChanged }) => ({ text: value, isChanged }));
}
