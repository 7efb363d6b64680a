// Pasted files.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pastedFiles } from '../src/content/pasted-files.ts';

function clipboard(texts: Record<string, string>, ...names: string[]) {
  const files = names.map((name) => new File(['x'], name));
  return { files: files as unknown as FileList, getData: (type: string) => texts[type] ?? '' };
}

test('attaches pasted files and pictures, but not the picture of cells whose text is pasted', () => {
  const cells = { 'text/plain': 'a\tb\n', 'text/html': '<table></table>' };
  const namesOf = (data: Parameters<typeof pastedFiles>[0]) => pastedFiles(data).map(({ name }) => name);
  assert.deepEqual(namesOf(clipboard(cells, 'image.png')), []);
  assert.deepEqual(namesOf(clipboard({ 'text/html': '<img>' }, 'image.png')), ['image.png']);
  assert.deepEqual(namesOf(clipboard({ 'text/plain': 'a.txt' }, 'a.txt')), ['a.txt']);
  assert.deepEqual(namesOf(clipboard({ 'text/plain': 'text' })), []);
  assert.deepEqual(namesOf(null), []);
});
