import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from '../src/backoff.mjs';

test('pauses double up to the limit, each between a half and the whole, and begin again after a reset', () => {
  const pausesOf = (random) => {
    const backoff = new Backoff({ minMs: 10, maxMs: 50, random: () => random });
    const pauses = [1, 2, 3, 4, 5].map(() => backoff.next());
    backoff.reset();
    return [...pauses, backoff.next()];
  };
  assert.deepEqual(pausesOf(1), [10, 20, 40, 50, 50, 10]);
  assert.deepEqual(pausesOf(0), [5, 10, 20, 25, 25, 5]);
});
