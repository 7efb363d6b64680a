// Diffs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstLines, hunksBetween, hunksOf } from '../src/content/diff.ts';

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

test('a unified diff is read with the numbers of its lines', () => {
  const [hunk] = hunksOf(PATCH) ?? [];
  assert.deepEqual(hunk?.lines.map(({ kind, before, after }) => [kind, before, after]), [
    ['same', 1, 1],
    ['removed', 2, null],
    ['added', null, 2],
    ['same', 3, 3],
  ]);
});

test('the words that changed in a line are marked', () => {
  const marked = hunksOf(PATCH)?.[0]?.lines.map(({ runs }) => runs.filter(({ isChanged }) => isChanged).map(({ text }) => text));
  assert.deepEqual(marked, [[], ['second'], ['third'], []]);
});

test('lines that have little in common are not compared', () => {
  const [hunk] = hunksBetween('alpha beta\n', 'something else entirely\n');
  assert.ok(hunk?.lines.every(({ runs }) => runs.every(({ isChanged }) => !isChanged)));
});

test('a diff of a new, an empty and a binary file', () => {
  assert.deepEqual(hunksBetween('', 'a\nb\n')[0]?.lines.map(({ kind, after }) => [kind, after]), [['added', 1], ['added', 2]]);
  assert.deepEqual(hunksOf(''), []);
  assert.deepEqual(hunksOf('diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n'), []);
});

test('the head of a hunk is as git writes it, also where one side is empty', () => {
  const heads = ['@@ -0,0 +1,2 @@\n+a\n+b\n', '@@ -1,2 +0,0 @@\n-a\n-b\n'].map((patch) => hunksOf(`--- a/x\n+++ b/x\n${patch}`)?.[0]?.header);
  assert.deepEqual(heads, ['@@ -0,0 +1,2 @@', '@@ -1,2 +0,0 @@']);
});

test('what is no diff is none', () => {
  assert.equal(hunksOf('@@ -1,9 +1,9 @@\n too short\n'), null);
});

test('two long texts that have nothing in common are one in place of the other, at once', () => {
  const text = (word: string) => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}\n`).join('');
  const [hunk, ...others] = hunksBetween(text('old'), text('new'));
  assert.deepEqual([others.length, hunk?.lines.length, hunk?.header], [0, 40_000, '@@ -1,20000 +1,20000 @@']);
  assert.deepEqual([hunk?.lines[0]?.kind, hunk?.lines.at(-1)?.kind, hunk?.lines.at(-1)?.after], ['removed', 'added', 20_000]);
});

test('a long new file is added alone', () => {
  const [hunk] = hunksBetween('', 'line\n'.repeat(5000));
  assert.deepEqual([hunk?.lines.length, hunk?.lines.every(({ kind }) => kind === 'added')], [5000, true]);
});

test('of a long diff the first lines are taken, across hunks', () => {
  const hunks = hunksOf(PATCH.replace(' four', ' four\n@@ -10,2 +10,2 @@\n same\n-x\n+y')) ?? [];
  assert.deepEqual(firstLines(hunks, 5).map(({ lines }) => lines.length), [4, 1]);
  assert.deepEqual(firstLines(hunks, 4).map(({ lines }) => lines.length), [4]);
  assert.deepEqual(firstLines(hunks, 100), hunks);
});
