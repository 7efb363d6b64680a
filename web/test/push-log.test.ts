// What became of notifications, in a person's words.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PushLogEntry } from '../src/api/types.ts';
import { failureOf, outcomeOf, wasAnyOn } from '../src/content/push-log.ts';

const entry = (outcome: string, sent = 0): PushLogEntry =>
  ({ at: 1, kind: 'ready', sessionId: 'a', title: 'Session Ready', body: 'It waits', outcome, sent, waiting: 0, failed: 0, failures: [], retries: [] }) as PushLogEntry;

test('what was delivered says to how many browsers, and what is not known is said as the hub does', () => {
  assert.equal(outcomeOf(entry('sent', 1)), 'Delivered to 1 browser');
  assert.equal(outcomeOf(entry('sent', 2)), 'Delivered to 2 browsers');
  assert.equal(outcomeOf(entry('cooling-down')), 'Not sent, as you were told of this session a moment before');
  assert.equal(outcomeOf(entry('of-tomorrow')), 'of-tomorrow');
});

test('what a push service answered is said in words, and what none was asked for in those of the hub', () => {
  const words = (status?: number) => failureOf({ service: 'https://push.example', reason: 'The minute is full.', ...(status === undefined ? {} : { status }) });
  assert.deepEqual([404, 410].map(words), Array(2).fill('The browser has unsubscribed'));
  assert.deepEqual([429, 500, 503].map(words), Array(3).fill('The browser’s push service was busy'));
  assert.equal(words(413), 'The message was too long for the browser');
  assert.equal(words(403), 'The browser’s push service refused it');
  assert.equal(words(), 'The minute is full.');
});

test('where no browser has had notifications on there is nothing to wonder about', () => {
  assert.equal(wasAnyOn([]), false);
  assert.equal(wasAnyOn([entry('no-subscribers'), entry('no-subscribers')]), false);
  assert.equal(wasAnyOn([entry('no-subscribers'), entry('toast')]), true);
});
