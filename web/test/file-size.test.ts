// Sizes of files.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatSize } from '../src/content/file-size.ts';

test('sizes are in the units of the limits', () => {
  const table: [number, string][] = [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1024 ** 2 - 1, '1.0 MiB'],
    [49 * 1024 ** 2, '49.0 MiB'],
    [50 * 1024 ** 2, '50.0 MiB'],
    [1024 ** 3, '1.0 GiB'],
    [5 * 1024 ** 4, '5120.0 GiB'],
  ];
  for (const [bytes, text] of table) assert.equal(formatSize(bytes), text);
});
