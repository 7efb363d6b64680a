/** Runs `npm run cost` in its quick form with the built hub. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellsOf, runQuickly } from './lib/bench.mjs';

// Simulates a month, which takes minutes on a computer that also compiles.
test('npm run cost prints rows, prices and verdicts of a busy month, and that idle clients send nothing to D1', {
  timeout: 600_000,
}, async (t) => {
  const text = await runQuickly(t, 'cost');
  for (const [work, count] of [
    ['D1 rows written for a message', '3'],
    ['D1 rows written for a message with a local id', '4'],
    ['requests to D1 in a minute of idle clients', '0'],
  ]) {
    const cells = cellsOf(text, work);
    assert.deepEqual([cells[0], cells.includes('met')], [count, true], work);
  }
  const [price] = cellsOf(text, 'a month: messages and keep-alives');
  // The duration of the object's work depends on the load of this machine.
  const [, duration] = cellsOf(text, 'object duration, GB-s');
  assert.ok(Number(price.slice(1)) - Number(duration.slice(1)) < 1, `a month costs ${price}, of which ${duration} are the duration`);
  assert.equal(cellsOf(text, 'a minute of 5 agents without messages')[1], '0', 'D1 rows that keep-alives write');
  assert.match(cellsOf(text, 'a month of the same clients, connected but idle')[0], /^\$\d/);
  assert.match(text, /list prices of \d/);
  const [priceWithLocalIds] = cellsOf(text, 'the same, each message with a local id');
  assert.ok(Number(priceWithLocalIds.slice(1)) > Number(price.slice(1)), priceWithLocalIds);
});
