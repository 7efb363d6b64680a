// The cache of rendered texts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextCache } from '../src/content/text-cache.ts';

/** A cache whose made values are recorded. */
function setup() {
  const made: string[] = [];
  const cache = new TextCache();
  const get = (text: string, length = 1) =>
    cache.get(text, () => {
      made.push(text);
      return 'x'.repeat(length);
    });
  return { get, made };
}

test('a value is made once', () => {
  const { get, made } = setup();
  assert.equal(get('a', 3), 'xxx');
  assert.equal(get('a'), 'xxx');
  assert.deepEqual(made, ['a']);
});

test('the values that were not used for the longest time are dropped above the limit', () => {
  const { get, made } = setup();
  get('a', 400_000);
  get('b', 400_000);
  get('a');
  get('c', 400_000);
  get('a');
  get('c');
  get('b');
  assert.deepEqual(made, ['a', 'b', 'c', 'b']);
});

test('a value above the limit is returned and not kept', () => {
  const { get, made } = setup();
  assert.equal(get('a', 2_000_000).length, 2_000_000);
  get('a', 2);
  assert.deepEqual(made, ['a', 'a']);
});
