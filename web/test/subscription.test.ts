// What the browser's push service may do.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '../src/subscription.ts';

test('a push service that never answers is given up, and what it does later changes nothing', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let refuse: (error: Error) => void = () => {};
  const silent = { subscribe: () => new Promise<PushSubscription>((_, reject) => (refuse = reject)) };
  const given = assert.rejects(create(silent, 'key'), /does not answer. Try again later/);
  t.mock.timers.tick(30_000);
  await given;
  refuse(new Error('too late'));
});

test('a refusal is told in words, with those of the browser', async () => {
  const refusing = { subscribe: () => Promise.reject<PushSubscription>(new Error('Registration failed - permission denied')) };
  await assert.rejects(create(refusing, 'key'), { message: 'This browser gives out no notifications here, as in a private window. (It says: Registration failed - permission denied)' });
});
