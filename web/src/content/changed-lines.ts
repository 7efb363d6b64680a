/** Line diffs of two texts. In a module of its own, because every row with an edit needs this module, and few rows need the larger `diff.ts`. */

import { structuredPatch } from 'diff/lib/patch/create.js';

export type ParsedHunk = NonNullable<ReturnType<typeof structuredPatch>>['hunks'][number];

/**
 * Returns the removed and the added lines of two texts, without a comparison of their words. If more than `maxEditLength` lines
 * differ, returns all lines of both texts.
 */
export function changedLines(before: string, after: string, maxEditLength: number): { kind: 'added' | 'removed'; text: string }[] {
  const lines = compareLines(before, after, maxEditLength).flatMap((hunk) => hunk.lines);
  return lines
    .filter((line) => /^[+-]/.test(line))
    .map((line) => ({ kind: line.startsWith('+') ? 'added' : 'removed', text: line.slice(1) }));
}

/** Compares two texts line by line. The time grows with the square of `maxEditLength`. */
export function compareLines(before: string, after: string, maxEditLength: number): ParsedHunk[] {
  // Without a line break, the last line of one text would differ from the same line in the middle of the other text.
  if (before !== '' && after !== '' && !before.endsWith('\n') && !after.endsWith('\n'))
    return compareLines(`${before}\n`, `${after}\n`, maxEditLength);
  const patch = structuredPatch('', '', before, after, '', '', { context: Number.MAX_SAFE_INTEGER, maxEditLength });
  return patch?.hunks ?? [replacementHunk(before, after)];
}

export const splitLines = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

/** Returns a hunk that replaces the whole text, without a comparison. */
function replacementHunk(before: string, after: string): ParsedHunk {
  const [removed, added] = [splitLines(before), splitLines(after)];
  const lines = [...removed.map((line) => `-${line}`), ...added.map((line) => `+${line}`)];
  return { oldStart: 1, oldLines: removed.length, newStart: 1, newLines: added.length, lines };
}
