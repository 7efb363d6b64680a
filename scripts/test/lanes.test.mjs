// Parallel lanes: the order of the checks, and the effect of a failure.

import assert from 'node:assert/strict';
import test from 'node:test';
import { UserError } from '../lib/errors.mjs';
import { runChecks } from '../lib/lanes.mjs';

const OPTIONS = { keepGoing: false, verbose: false };

/** Creates checks that record when they begin and end. `until`: a check waits for this promise. */
function makeRecorder() {
  const order = [];
  /**
   * @param {string} title
   * @param {string} lane
   * @param {{after?: string[], until?: Promise<unknown>, fails?: boolean, skipReason?: () => string | Promise<string>}} [options]
   */
  const check = (title, lane, { after, until, fails = false, skipReason } = {}) => ({
    title,
    lane,
    after,
    skipReason,
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

test('lanes run in parallel, and the checks of a lane in order', async () => {
  const { order, check } = makeRecorder();
  /** @type {(value?: unknown) => void} */
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

test('a check waits for its dependency in another lane, and does not run if the dependency failed', async () => {
  const { order, check } = makeRecorder();
  const results = await runChecks(
    [check('build', 'one', { fails: true }), check('use', 'two', { after: ['build'] }), check('other', 'two')],
    { ...OPTIONS, keepGoing: true },
  );
  assert.deepEqual(states(results), { build: 'failed', use: 'not run', other: 'passed' });
  assert.ok(!order.includes('use begins'));
});

test('after a failure no further check starts', async () => {
  const { check } = makeRecorder();
  const results = await runChecks([check('a', 'one', { fails: true }), check('b', 'one')], OPTIONS);
  assert.deepEqual(states(results), { a: 'failed', b: 'not run' });
});

test('the skip reason of a check is computed while its dependency runs', async () => {
  const { order, check } = makeRecorder();
  /** @type {(reason: string) => void} */
  let resolve;
  const reason = new Promise((done) => {
    resolve = done;
  });
  const skipReason = () => (order.push('use is prepared'), reason);
  const results = runChecks([check('build', 'one'), check('use', 'two', { after: ['build'], skipReason })], OPTIONS);
  while (!order.includes('build ends')) await new Promise(setImmediate);
  assert.deepEqual(order, ['use is prepared', 'build begins', 'build ends']);
  resolve('Nothing can be installed.');
  assert.deepEqual((await results).get('use').reason, 'Nothing can be installed.');
  assert.ok(!order.includes('use begins'));
});

test('a check that cannot run on this computer is skipped with the reason', async () => {
  const { order, check } = makeRecorder();
  const results = await runChecks([check('a', 'one', { skipReason: () => 'there is no browser.' }), check('b', 'one')], OPTIONS);
  assert.deepEqual([states(results), results.get('a').reason], [{ a: 'skipped', b: 'passed' }, 'there is no browser.']);
  assert.deepEqual(order, ['b begins', 'b ends']);
});
