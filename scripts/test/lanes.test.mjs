// Checks side by side: what runs when, and what a failure stops.

import assert from 'node:assert/strict';
import test from 'node:test';
import { UserError } from '../lib/errors.mjs';
import { runChecks } from '../lib/lanes.mjs';

const OPTIONS = { keepGoing: false, verbose: false };

/** Checks that note when they begin and end, and the promise that each waits for. */
function recorded() {
  const order = [];
  const check = (title, lane, { after, until, fails = false, leftOut } = {}) => ({
    title,
    lane,
    after,
    leftOut,
    run: async () => {
      order.push(`${title} begins`);
      await until;
      order.push(`${title} ends`);
      if (fails) throw new UserError(`${title} is broken.`);
    },
  });
  return { order, check };
}

const states = (results) => Object.fromEntries([...results].map(([title, { state }]) => [title, state]));

test('lanes run side by side, and the checks of one lane one after another', async () => {
  const { order, check } = recorded();
  let release;
  const until = new Promise((resolve) => {
    release = resolve;
  });
  const results = runChecks([check('a', 'one', { until }), check('b', 'one'), check('c', 'two')], OPTIONS);
  while (!order.includes('c ends')) await new Promise(setImmediate);
  assert.deepEqual(order, ['a begins', 'c begins', 'c ends']);
  release();
  assert.deepEqual(states(await results), { a: 'passed', b: 'passed', c: 'passed' });
  assert.deepEqual(order.slice(3), ['a ends', 'b begins', 'b ends']);
});

test('a check waits for the one it needs in another lane, and does not run when that one failed', async () => {
  const { order, check } = recorded();
  const results = await runChecks(
    [check('build', 'one', { fails: true }), check('use', 'two', { after: ['build'] }), check('other', 'two')],
    { ...OPTIONS, keepGoing: true },
  );
  assert.deepEqual(states(results), { build: 'failed', use: 'not run', other: 'passed' });
  assert.ok(!order.includes('use begins'));
});

test('after a failure nothing more starts', async () => {
  const { check } = recorded();
  const results = await runChecks([check('a', 'one', { fails: true }), check('b', 'one')], OPTIONS);
  assert.deepEqual(states(results), { a: 'failed', b: 'not run' });
});

test('a check that this machine cannot run is left out with its reason', async () => {
  const { order, check } = recorded();
  const results = await runChecks([check('a', 'one', { leftOut: () => 'there is no browser.' }), check('b', 'one')], OPTIONS);
  assert.deepEqual([states(results), results.get('a').why], [{ a: 'left out', b: 'passed' }, 'there is no browser.']);
  assert.deepEqual(order, ['b begins', 'b ends']);
});
