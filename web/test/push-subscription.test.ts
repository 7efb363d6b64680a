// Creating a push subscription.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSubscription } from '../src/api/push-subscription.ts';

test('times out when the push service never answers, and ignores its late answer', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let rejectLate: (error: Error) => void = () => {};
  const silent = { subscribe: () => new Promise<PushSubscription>((_, reject) => (rejectLate = reject)) };
  const timedOut = assert.rejects(createSubscription(silent, 'key'), /did not respond. Try again later/);
  t.mock.timers.tick(30_000);
  await timedOut;
  rejectLate(new Error('too late'));
});

test('explains a rejection and quotes the browser’s message', async () => {
  const rejecting = { subscribe: () => Promise.reject<PushSubscription>(new Error('Registration failed - permission denied')) };
  await assert.rejects(createSubscription(rejecting, 'key'), {
    message:
      'This browser cannot receive notifications here, for example in a private window. (Browser error: Registration failed - permission denied)',
  });
});
