// The queue of a session, as its CLI publishes the queue.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moveBy, queueOf } from '../src/content/queue.ts';

test('a queue is shown only if messages wait and users can change the queue', () => {
  assert.deepEqual(queueOf({ queuedMessages: [4, 2], queue: { texts: { 4: 'new' }, steers: true } }), {
    seqs: [4, 2],
    texts: { 4: 'new' },
    steers: true,
  });
  for (const none of [null, 'x', {}, { queuedMessages: [1] }, { queuedMessages: [], queue: {} }, { queuedMessages: {}, queue: {} }])
    assert.equal(queueOf(none), null);
});

test('invalid values of a queue are ignored', () => {
  assert.deepEqual(queueOf({ queuedMessages: [1, 'x', null, 2.5], queue: { texts: 7, steers: 'yes' } }), {
    seqs: [1],
    texts: {},
    steers: false,
  });
});

test('an element moves within its list', () => {
  assert.deepEqual(moveBy([1, 2, 3], 3, -1), [1, 3, 2]);
  assert.deepEqual(moveBy([1, 2, 3], 1, 5), [2, 3, 1]);
  assert.deepEqual(moveBy([1, 2, 3], 1, -1), [1, 2, 3]);
});
