// Texts for the log of sent notifications.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PushLogEntry } from '../src/api/types.ts';
import { describeFailure, describeOutcome, hadSubscribers } from '../src/content/push-log.ts';

const entry = (outcome: string, sent = 0, waiting = 0): PushLogEntry =>
  ({
    at: 1,
    kind: 'ready',
    sessionId: 'a',
    title: 'Session Ready',
    body: 'It waits',
    outcome,
    sent,
    waiting,
    failed: 0,
    failures: [],
    retries: [],
  }) as PushLogEntry;

test('describes outcomes, and shows unknown outcomes unchanged', () => {
  assert.equal(describeOutcome(entry('sent', 1)), 'Delivered to 1 browser');
  assert.equal(describeOutcome(entry('sent', 2)), 'Delivered to 2 browsers');
  assert.equal(describeOutcome(entry('toast')), 'Shown in the console, which was in use');
  assert.equal(describeOutcome(entry('toast', 0, 1)), 'Shown in the console. Sent in a minute if the console is not used until then');
  assert.equal(describeOutcome(entry('cooling-down')), 'Not sent: too soon after the last one of this session');
  assert.equal(describeOutcome(entry('new-outcome')), 'new-outcome');
});

test('describes failures by status, or else with the hub’s reason', () => {
  const describe = (status?: number) =>
    describeFailure({ service: 'https://push.example', reason: 'The minute is full.', ...(status === undefined ? {} : { status }) });
  assert.deepEqual([404, 410].map(describe), Array(2).fill('The browser has unsubscribed'));
  assert.deepEqual([429, 500, 503].map(describe), Array(3).fill('The push service was busy'));
  assert.equal(describe(413), 'The notification was too long');
  assert.equal(describe(403), 'The push service rejected it');
  assert.equal(describe(), 'The minute is full.');
});

test('detects whether any browser had notifications on', () => {
  assert.equal(hadSubscribers([]), false);
  assert.equal(hadSubscribers([entry('no-subscribers'), entry('no-subscribers')]), false);
  assert.equal(hadSubscribers([entry('no-subscribers'), entry('toast')]), true);
});
