// Diffs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describePatch, diffTexts, parseDiff, takeLines } from '../src/content/diff.ts';
import { pluck } from './support/pluck.ts';

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
  assert.deepEqual(pluck(hunk?.lines, 'kind', 'before', 'after'), [
    ['same', 1, 1],
    ['removed', 2, null],
    ['added', null, 2],
    ['same', 3, 3],
  ]);
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
  assert.deepEqual(pluck(diffTexts('', 'a\nb\n')[0]?.lines, 'kind', 'after'), [
    ['added', 1],
    ['added', 2],
  ]);
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

test('says what a diff changes besides lines', () => {
  const modes = 'diff --git a/x b/x\nold mode 100644\nnew mode 100755\n';
  const executable = 'The mode changed from 100644 (a plain file) to 100755 (an executable file).';
  assert.deepEqual(describePatch(modes, false), [executable]);
  assert.deepEqual(describePatch(`${modes}index 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-new file mode 1\n+rename to\n`, true), [executable]);
  assert.deepEqual(describePatch(PATCH, true), []);
  assert.deepEqual(describePatch('', false), ['No lines changed.']);
  const header = 'diff --git a/x b/y\n';
  assert.deepEqual(describePatch(`${header}similarity index 100%\nrename from x\nrename to y\n`, false), [
    'The file was renamed. No lines changed.',
  ]);
  assert.deepEqual(describePatch(`${header}new file mode 100644\nindex 0..1\n`, false), ['The new file is empty.']);
  assert.deepEqual(describePatch(`${header}deleted file mode 100644\nindex 0..1\n`, false), ['The deleted file was empty.']);
  assert.deepEqual(describePatch(`${header}index 0..1\nBinary files a/x and b/y differ\n`, false), ['Binary files cannot be compared.']);
});

test('does not parse the diff of a merge as a diff of two versions', () => {
  assert.equal(parseDiff('diff --cc a\n--- a/a\n+++ b/a\n@@@ -1,1 -1,1 +1,5 @@@\n++<<<<<<< HEAD\n +ours\n'), null);
});
