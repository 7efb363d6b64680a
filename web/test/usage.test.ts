// Texts for the tokens and the cost of an agent.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLimits } from '../src/content/plan-limits.ts';
import { describeUsage, describeUsageBriefly } from '../src/content/usage.ts';

test('describes the known parts of tokens and cost', () => {
  const table: [unknown, string][] = [
    [{ used: 12_345, size: 200_000, cost: { amount: 0.054, currency: 'USD' } }, '12K of 200K tokens · $0.05'],
    [{ used: 900 }, '900 tokens'],
    [{ used: 0, size: 0 }, '0 tokens'],
    [{ cost: { amount: 2, currency: 'EUR' } }, '€2.00'],
    [{ cost: { amount: 2, currency: 'credits' } }, '2.00 credits'],
    [{ used: '7', cost: { amount: '2' } }, ''],
    [{ used: 7, cost: 'much' }, '7 tokens'],
    ['12', ''],
    [null, ''],
    [undefined, ''],
  ];
  for (const [usage, text] of table) assert.equal(describeUsage(usage), text, JSON.stringify(usage));
});

test('the short text shows the tokens as a share of the limit, if the limit is known', () => {
  const table: [unknown, string][] = [
    [{ used: 12_345, size: 200_000, cost: { amount: 0.054, currency: 'USD' } }, '6%'],
    [{ used: 200_000, size: 200_000 }, '100%'],
    [{ used: 12_345, cost: { amount: 2, currency: 'EUR' } }, '12K tokens'],
    [{ used: 900, size: 0 }, '900 tokens'],
    [{ cost: { amount: 2, currency: 'EUR' } }, '€2.00'],
    [null, ''],
  ];
  for (const [usage, text] of table) assert.equal(describeUsageBriefly(usage), text, JSON.stringify(usage));
});

test('the limits of a plan have names, also unknown ones, and invalid limits are dropped', () => {
  const limits = [
    { id: 'five_hour', used: 0.4, resetsAt: 1_795_000_000_000 },
    { id: 'seven_day_next', used: 7 },
    { id: 'constructor', used: 0 },
    { id: 'x', used: -1 },
    { id: 'x' },
    { id: 'seven_day', used: 0.1, resetsAt: 'soon' },
    null,
  ];
  const before = 1_795_000_000_000 - 1;
  assert.deepEqual(parseLimits(limits, before), [
    { id: 'five_hour', label: '5-hour limit', used: 0.4, resetsAt: 1_795_000_000_000 },
    { id: 'seven_day_next', label: 'Seven day next', used: 1 },
    { id: 'constructor', label: 'Constructor', used: 0 },
    { id: 'seven_day', label: 'Weekly limit', used: 0.1 },
  ]);
  const idsAtReset = parseLimits(limits, before + 1).map(({ id }) => id);
  assert.deepEqual(idsAtReset, ['seven_day_next', 'constructor', 'seven_day'], 'a limit that was reset meanwhile is unknown');
  for (const value of [undefined, null, 'x', {}]) assert.deepEqual(parseLimits(value), []);
});
