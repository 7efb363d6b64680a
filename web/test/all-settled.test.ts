import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allSettled } from '../src/content/all-settled.ts';

const ORDERS = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
];

/** Starts three calls of which those in `failing` fail, and ends them in the given order. */
function callsThatEnd(order: number[], failing: number[]): Promise<number[]> {
  const calls = [0, 1, 2].map(() => Promise.withResolvers<number>());
  const result = allSettled([calls[0]!.promise, calls[1]!.promise, calls[2]!.promise]);
  for (const at of order) {
    if (failing.includes(at)) calls[at]!.reject(new Error(`call ${at}`));
    else calls[at]!.resolve(at);
  }
  return result;
}

test('the error is that of the first failed call in the list, in whichever order the calls end', async () => {
  for (const order of ORDERS) {
    await assert.rejects(callsThatEnd(order, [0, 1, 2]), /call 0/);
    await assert.rejects(callsThatEnd(order, [1, 2]), /call 1/);
    await assert.rejects(callsThatEnd(order, [2]), /call 2/);
  }
});

test('the values are in the order of the list, in whichever order the calls end', async () => {
  for (const order of ORDERS) assert.deepEqual(await callsThatEnd(order, []), [0, 1, 2]);
});
