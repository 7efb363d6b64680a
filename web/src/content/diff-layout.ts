/** Groups of the lines of a diff, which the browser lays out when they come into view, and estimates of their sizes. */

import type { DiffLine, Hunk, TextSpan } from './diff.ts';

const LINES_PER_GROUP = 50;

/** Consecutive lines of a hunk. The first group of a hunk has the header. */
export interface LineGroup {
  header?: string;
  lines: DiffLine[];
}

export function groupLines(hunks: Hunk[]): LineGroup[] {
  const groups: LineGroup[] = [];
  for (const { header, lines } of hunks) {
    for (let from = 0; from < lines.length; from += LINES_PER_GROUP) {
      const part = lines.slice(from, from + LINES_PER_GROUP);
      groups.push(from === 0 ? { header, lines: part } : { lines: part });
    }
  }
  return groups;
}

export const lineText = (spans: TextSpan[]): string => spans.map(({ text }) => text).join('');

/** The part of a wrapped line that stays empty, because lines break between words. */
const EMPTY_COLUMNS = 4;

/** Characters that take two columns: those of East Asian scripts. */
const WIDE = /[\u2e80-\ud7a3\uf900-\uffef]/g;

/** Returns about how many lines of text a group takes, with its header. `columns`: how many characters fit into a line of text. */
export function estimateHeight({ header, lines }: LineGroup, columns: number): number {
  const heightOf = ({ spans }: DiffLine) => {
    const { length } = lineText(spans).replaceAll('\t', '    ').replaceAll(WIDE, '$&$&');
    return length <= columns ? 1 : Math.ceil(length / Math.max(1, columns - EMPTY_COLUMNS));
  };
  return lines.reduce((sum, line) => sum + heightOf(line), header === undefined ? 0 : 1);
}

/** Returns the number of digits of the largest line number. */
export function countDigits(hunks: Hunk[]): number {
  const numbers = (hunks.at(-1)?.lines ?? []).flatMap(({ before, after }) => [before ?? 0, after ?? 0]);
  return String(numbers.reduce((max, number) => Math.max(max, number), 0)).length;
}
