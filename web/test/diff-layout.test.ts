// Groups of the lines of a diff, and estimates of their sizes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffTexts, parseDiff } from '../src/content/diff.ts';
import { countDigits, estimateHeight, groupLines, lineText } from '../src/content/diff-layout.ts';

const textOf = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('');

test('splits each hunk into groups of 50 lines, and gives its header to the first group', () => {
  const patch = `--- a/x\n+++ b/x\n@@ -0,0 +1,120 @@\n${textOf(120).replaceAll(/^(?=.)/gm, '+')}@@ -200 +321 @@\n-one\n+two\n`;
  const groups = groupLines(parseDiff(patch) ?? []);
  assert.deepEqual(
    groups.map(({ header, lines }) => [header, lines.length]),
    [
      ['@@ -0,0 +1,120 @@', 50],
      [undefined, 50],
      [undefined, 20],
      ['@@ -200,1 +321,1 @@', 2],
    ],
  );
  const texts = groups.flatMap(({ lines }) => lines.map(({ spans }) => lineText(spans)));
  assert.equal(texts.join('\n'), `${textOf(120)}one\ntwo`);
});

test('estimates the height of a group from the lengths of its lines, their tabs and wide characters', () => {
  const heightOf = (text: string) => groupLines(diffTexts('', text)).reduce((sum, group) => sum + estimateHeight(group, 24), 0);
  // One line is the header.
  assert.equal(heightOf('short\n\nshort\n'), 4);
  assert.equal(heightOf(`${'x'.repeat(24)}\n`), 2);
  assert.equal(heightOf(`${'x'.repeat(41)}\n`), 4);
  assert.equal(heightOf(`\t${'x'.repeat(21)}\n`), 3);
  assert.equal(heightOf(`${'日'.repeat(12)}\n${'日'.repeat(13)}\n`), 4);
});

test('counts the digits of the largest line number of both files', () => {
  assert.equal(countDigits(diffTexts(textOf(9), '')), 1);
  assert.equal(countDigits(diffTexts('', textOf(1200))), 4);
  assert.equal(countDigits([]), 1);
});
