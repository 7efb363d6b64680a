// Diffs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffTexts, parseDiff, takeLines } from '../src/content/diff.ts';

const PATCH = `diff --git a/notes.txt b/notes.txt
index 5626abf..814f4a4 100644
--- a/notes.txt
+++ b/notes.txt
@@ -1,3 +1,3 @@
 one
-the second line
+the third line
 four
\\ No newline at end of file
`;

test('parses a unified diff with its line numbers', () => {
  const [hunk] = parseDiff(PATCH) ?? [];
  assert.deepEqual(
    hunk?.lines.map(({ kind, before, after }) => [kind, before, after]),
    [
      ['same', 1, 1],
      ['removed', 2, null],
      ['added', null, 2],
      ['same', 3, 3],
    ],
  );
});

test('marks the changed words of a line', () => {
  const marked = parseDiff(PATCH)?.[0]?.lines.map(({ spans }) => spans.filter(({ isChanged }) => isChanged).map(({ text }) => text));
  assert.deepEqual(marked, [[], ['second'], ['third'], []]);
});

test('does not compare unrelated lines by words', () => {
  const [hunk] = diffTexts('alpha beta\n', 'something else entirely\n');
  assert.ok(hunk?.lines.every(({ spans }) => spans.every(({ isChanged }) => !isChanged)));
});

test('handles a new, an empty and a binary file', () => {
  assert.deepEqual(
    diffTexts('', 'a\nb\n')[0]?.lines.map(({ kind, after }) => [kind, after]),
    [
      ['added', 1],
      ['added', 2],
    ],
  );
  assert.deepEqual(parseDiff(''), []);
  assert.deepEqual(parseDiff('diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n'), []);
});

test('writes hunk headers like git, also for an empty side', () => {
  const headers = ['@@ -0,0 +1,2 @@\n+a\n+b\n', '@@ -1,2 +0,0 @@\n-a\n-b\n'].map(
    (patch) => parseDiff(`--- a/x\n+++ b/x\n${patch}`)?.[0]?.header,
  );
  assert.deepEqual(headers, ['@@ -0,0 +1,2 @@', '@@ -1,2 +0,0 @@']);
});

test('returns null for an invalid diff', () => {
  assert.equal(parseDiff('@@ -1,9 +1,9 @@\n too short\n'), null);
});

test('replaces the whole text when two long texts have nothing in common', () => {
  const text = (word: string) => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}\n`).join('');
  const [hunk, ...others] = diffTexts(text('old'), text('new'));
  assert.deepEqual([others.length, hunk?.lines.length, hunk?.header], [0, 40_000, '@@ -1,20000 +1,20000 @@']);
  assert.deepEqual([hunk?.lines[0]?.kind, hunk?.lines.at(-1)?.kind, hunk?.lines.at(-1)?.after], ['removed', 'added', 20_000]);
});

test('shows a long new file as added lines only', () => {
  const [hunk] = diffTexts('', 'line\n'.repeat(5000));
  assert.deepEqual([hunk?.lines.length, hunk?.lines.every(({ kind }) => kind === 'added')], [5000, true]);
});

test('takes the first lines across hunks', () => {
  const hunks = parseDiff(PATCH.replace(' four', ' four\n@@ -10,2 +10,2 @@\n same\n-x\n+y')) ?? [];
  assert.deepEqual(
    takeLines(hunks, 5).map(({ lines }) => lines.length),
    [4, 1],
  );
  assert.deepEqual(
    takeLines(hunks, 4).map(({ lines }) => lines.length),
    [4],
  );
  assert.deepEqual(takeLines(hunks, 100), hunks);
});
