// Diffs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hunksBetween, hunksOf } from '../src/content/diff.ts';

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

test('what is no diff is none', () => {
  assert.equal(hunksOf('@@ -1,9 +1,9 @@\n too short\n'), null);
});
