/** Runs `npm run cost` and `npm run idle` in their quick form with the built hub. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cellsOf, runQuickly } from './lib/bench.mjs';

// Each test simulates a month, which takes minutes on a computer that also compiles.
describe('quickly', { concurrency: true, timeout: 600_000 }, () => {
  test('npm run cost prints rows, prices and verdicts of a month', { timeout: 600_000 }, async (t) => {
    const text = await runQuickly(t, 'cost');
    for (const [work, rows] of [
      ['D1 rows written for a message', '3'],
      ['D1 rows written for a message with a local id', '4'],
    ]) {
      const cells = cellsOf(text, work);
      assert.deepEqual([cells[0], cells.includes('met')], [rows, true], work);
    }
    const [price] = cellsOf(text, 'a month: messages and keep-alives');
    // The duration of the object's work depends on the load of this machine.
    const [, duration] = cellsOf(text, 'object duration, GB-s');
    assert.ok(Number(price.slice(1)) - Number(duration.slice(1)) < 1, `a month costs ${price}, of which ${duration} are the duration`);
    assert.match(cellsOf(text, 'sum').at(-1), /^list prices of/);
    assert.equal(cellsOf(text, 'a minute of 5 agents without messages')[1], '0', 'D1 rows that keep-alives write');
    assert.match(text, /cost: if each message has a local id/);
  });

  test('npm run idle prints wakes, statements and prices of a month', { timeout: 600_000 }, async (t) => {
    const text = await runQuickly(t, 'idle');
    for (const work of ['20 CLIs and 5 web clients, idle', '20 CLIs, keep-alive every 10 s']) {
      const cells = cellsOf(text, `${work}: statements to D1`);
      assert.deepEqual([cells[0], cells.includes('met')], ['0', true], work);
    }
    assert.match(text, /What a month of 30 such days and nights uses/);
  });
});
