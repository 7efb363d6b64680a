// The phases of `npm test`: the order of the checks, and what follows a failure.

import assert from 'node:assert/strict';
import test from 'node:test';
import { UserError } from '../lib/errors.mjs';
import { runChecks, summarize } from '../gate/phases.mjs';
import { QUARANTINE } from '../gate/quarantine.mjs';

const OPTIONS = { verbose: false };

/** Creates checks that record when they begin and end. `until`: a check waits for this promise. `failures`: of its tests. */
function makeRecorder() {
  const order = [];
  /**
   * @param {string} title
   * @param {'build' | 'pure' | 'runtime' | 'browser'} phase
   * @param {{after?: string[], until?: Promise<unknown>, fails?: boolean, failures?: any[], again?: any[],
   *   skipReason?: () => string | Promise<string>}} [options] `again`: the failures when a test file runs once more
   */
  const check = (title, phase, { after, until, fails = false, failures = [], again = [], skipReason } = {}) => ({
    title,
    phase,
    after,
    skipReason,
    run: async () => {
      order.push(`${title} begins`);
      await until;
      order.push(`${title} ends`);
      if (fails) throw new UserError(`${title} is broken.`);
      return { passed: 1, skipped: 0, failures };
    },
    rerun: async (file) => {
      order.push(`${file} again`);
      return { passed: 1, skipped: 0, failures: again.filter((failure) => failure.file === file) };
    },
  });
  return { order, check };
}

const failureOf = (file, title, isSlow = true) => ({ file, title, error: 'Error: late', output: [], isSlow });
const states = (results) => Object.fromEntries([...results].map(([title, { state }]) => [title, state]));
const titles = (failures) => failures.map(({ title }) => title);

test('a phase begins when the phase before has ended, and only builds run side by side', async () => {
  const { order, check } = makeRecorder();
  /** @type {(value?: unknown) => void} */
  let release;
  const until = new Promise((resolve) => {
    release = resolve;
  });
  const results = runChecks(
    [check('slow', 'build', { until }), check('fast', 'build'), check('a', 'runtime'), check('b', 'pure')],
    OPTIONS,
  );
  while (!order.includes('fast ends')) await new Promise(setImmediate);
  assert.deepEqual(order, ['slow begins', 'fast begins', 'fast ends']);
  release();
  assert.deepEqual(states(await results), { slow: 'passed', fast: 'passed', a: 'passed', b: 'passed' });
  assert.deepEqual(order.slice(3), ['slow ends', 'b begins', 'b ends', 'a begins', 'a ends']);
});

test('a failure does not end the run, but a check does not run if a build that it needs has failed', async () => {
  const { order, check } = makeRecorder();
  const results = await runChecks(
    [check('build', 'build', { fails: true }), check('use', 'runtime', { after: ['build'] }), check('other', 'runtime')],
    OPTIONS,
  );
  assert.deepEqual(states(results), { build: 'failed', use: 'not run', other: 'passed' });
  assert.ok(!order.includes('use begins'));
});

test('a check runs although a build that it could use was skipped', async () => {
  const { check } = makeRecorder();
  const skipReason = () => 'There is no previous commit.';
  const results = await runChecks([check('build', 'build', { skipReason }), check('use', 'runtime', { after: ['build'] })], OPTIONS);
  assert.deepEqual(states(results), { build: 'skipped', use: 'passed' });
});

test('a check waits for its tools, and the run ends if they cannot be installed', async () => {
  const { order, check } = makeRecorder();
  const tools = async () => {
    await new Promise(setImmediate);
    order.push('installed');
  };
  const checks = [
    { ...check('a', 'build'), tools },
    { ...check('b', 'pure'), tools: () => Promise.reject(new UserError('npm is offline.')) },
  ];
  await assert.rejects(runChecks([...checks, check('c', 'runtime')], OPTIONS), { message: 'npm is offline.' });
  assert.deepEqual(order, ['installed', 'a begins', 'a ends']);
});

test('a failed test of the runtime runs again at the end, and is flaky if its file then passes', async () => {
  const { order, check } = makeRecorder();
  const failures = [failureOf('late.mjs', 'is late'), failureOf('wrong.mjs', 'is wrong')];
  const again = [failureOf('wrong.mjs', 'is wrong'), failureOf('wrong.mjs', 'fails too')];
  const results = await runChecks([check('hub', 'runtime', { failures, again }), check('console', 'browser')], OPTIONS);
  assert.deepEqual(order.slice(3), ['console ends', 'late.mjs again', 'wrong.mjs again']);
  const result = results.get('hub');
  assert.deepEqual([result.state, titles(result.flaky), titles(result.failures)], ['failed', ['is late'], ['is wrong', 'fails too']]);
});

test('a test that got a wrong result does not run again, and neither does the rest of its file', async () => {
  const { order, check } = makeRecorder();
  const failures = [failureOf('hub.mjs', 'is late'), failureOf('hub.mjs', 'is wrong', false), failureOf('late.mjs', 'is late')];
  const results = await runChecks([check('hub', 'runtime', { failures })], OPTIONS);
  assert.deepEqual(order, ['hub begins', 'hub ends', 'late.mjs again']);
  const { state, flaky, failures: remaining } = results.get('hub');
  assert.deepEqual([state, titles(flaky), titles(remaining)], ['failed', ['is late'], ['is late', 'is wrong']]);
});

test('three flaky tests pass a run, and four fail it', async (t) => {
  t.mock.method(console, 'log', () => {});
  const { check } = makeRecorder();
  const runWith = async (count) => {
    const failures = Array.from({ length: count }, (_, i) => failureOf('late.mjs', `is late ${i}`));
    return summarize(await runChecks([check('hub', 'runtime', { failures })], OPTIONS), 1);
  };
  const three = await runWith(3);
  assert.deepEqual([three.isGreen, three.passed, three.flaky.length], [true, 4, 3]);
  assert.equal((await runWith(4)).isGreen, false);
});

test('a failed pure test does not run again', async () => {
  const { order, check } = makeRecorder();
  const results = await runChecks([check('pure', 'pure', { failures: [failureOf('rules.mjs', 'is wrong')] })], OPTIONS);
  assert.deepEqual(states(results), { pure: 'failed' });
  assert.deepEqual(order, ['pure begins', 'pure ends']);
});

test('the skip reason of a check is computed during the builds', async () => {
  const { order, check } = makeRecorder();
  /** @type {(reason: string) => void} */
  let resolve;
  const reason = new Promise((done) => {
    resolve = done;
  });
  const skipReason = () => (order.push('use is prepared'), reason);
  const results = runChecks([check('build', 'build'), check('use', 'browser', { after: ['build'], skipReason })], OPTIONS);
  while (!order.includes('build ends')) await new Promise(setImmediate);
  assert.deepEqual(order, ['use is prepared', 'build begins', 'build ends']);
  resolve('Nothing can be installed.');
  assert.deepEqual((await results).get('use').reason, 'Nothing can be installed.');
  assert.ok(!order.includes('use begins'));
});

test('a check that cannot run on this computer is skipped with the reason', async () => {
  const { order, check } = makeRecorder();
  const results = await runChecks([check('a', 'pure', { skipReason: () => 'there is no browser.' }), check('b', 'pure')], OPTIONS);
  assert.deepEqual([states(results), results.get('a').reason], [{ a: 'skipped', b: 'passed' }, 'there is no browser.']);
  assert.deepEqual(order, ['b begins', 'b ends']);
});

test('a failed test in quarantine is reported, and does not fail the run', async (t) => {
  t.mock.method(console, 'log', () => {});
  QUARANTINE.push({ test: 'late.mjs › is late', reason: 'unknown', date: '2026-11-29' });
  t.after(() => QUARANTINE.pop());
  const { check } = makeRecorder();
  const failures = [failureOf('late.mjs', 'is late', false)];
  const results = await runChecks([check('a', 'pure', { failures })], OPTIONS);
  assert.deepEqual([states(results), titles(results.get('a').quarantined)], [{ a: 'passed' }, ['is late']]);
  assert.equal(summarize(results, 1).isGreen, true);
  const others = [...failures, failureOf('late.mjs', 'is later')];
  const again = await runChecks([check('a', 'runtime', { failures: others, again: failures })], OPTIONS);
  assert.deepEqual([states(again), titles(again.get('a').flaky)], [{ a: 'passed' }, ['is later']]);
});
