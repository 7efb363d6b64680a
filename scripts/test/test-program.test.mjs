// The program that runs test files: each way in which a file fails is reported, and the files after it still run.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { inProject } from '../lib/paths.mjs';
import { run } from '../lib/run.mjs';

const FILES = {
  'a-test.mjs': "import { describe, test } from 'node:test'; describe('suite', () => test('fails', () => { throw new Error('wrong'); }));",
  'a-hook.mjs': "import { after, test } from 'node:test'; after(() => { throw new Error('not stopped'); }); test('passes', () => {});",
  'a-crash.mjs': "throw new Error('boom');",
  'an-exit.mjs': "import { test } from 'node:test'; test('passes', () => {}); process.on('exit', () => { process.exitCode = 3; });",
  'the-last.mjs': "import { test } from 'node:test'; test('passes', () => {}); test.skip('is skipped', () => {});",
  'a-skip.mjs':
    "import { describe, test } from 'node:test'; describe('suite', { skip: 'No npm.' }, () => test('fails', () => assert.ok(0)));",
};

/** Runs files of tests, and returns the events of the test program. @param {Record<string, string>} contents by name */
async function runFiles(t, contents) {
  const folder = tempDir(t);
  for (const [name, text] of Object.entries(contents)) writeFileSync(path.join(folder, name), text);
  const files = Object.keys(contents).map((name) => path.join(folder, name));
  const options = JSON.stringify({ files, concurrency: 1, timeoutMs: 60_000 });
  // Inside of a test, Node's runner would report to this test.
  const env = { NODE_TEST_CONTEXT: undefined };
  const output = await run(process.execPath, [inProject('scripts', 'gate', 'test-program.mjs'), options], { env });
  return output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

test('a failed test, a failed hook, a crash and an exit code are failures of their files, and the next file runs', async (t) => {
  const events = await runFiles(t, FILES);
  const resultsOf = (type) =>
    events.filter((event) => event.type === type).map(({ file, title }) => `${path.basename(file)}: ${path.basename(title)}`);
  assert.deepEqual(resultsOf('failed').sort(), [
    'a-crash.mjs: a-crash.mjs',
    'a-hook.mjs: a-hook.mjs',
    'a-test.mjs: suite › fails',
    'an-exit.mjs: an-exit.mjs',
  ]);
  assert.deepEqual(resultsOf('passed').sort(), ['a-hook.mjs: passes', 'an-exit.mjs: passes', 'the-last.mjs: passes']);
  assert.deepEqual(resultsOf('skipped'), ['the-last.mjs: is skipped', 'a-skip.mjs: suite']);
  assert.equal(events.find(({ title }) => title === 'suite').reason, 'No npm.');
});

const SLOW_FILE = `import { describe, test } from 'node:test';
const late = (cause) => Object.assign(new Error('late', { cause }), { name: 'TimeoutError' });
const wrong = () => { throw new Error('wrong'); };
test('waits in vain', () => { throw late(); });
test('has a cause', () => { throw new Error('broken', { cause: late() }); });
test('has a limit', { timeout: 1 }, () => new Promise((resolve) => setTimeout(resolve, 500)));
test('compares clocks', { tags: ['timing'] }, wrong);
test('is wrong', wrong);
test('story', async (t) => {
  await t.test('one', wrong);
  await t.test('two', () => { throw late(); });
  await t.test('three', wrong);
});
describe('suite', () => {
  test('one', () => { throw late(); });
  test('two', wrong);
});`;

test('a failure is slow if a wait or a limit ended, if the test is about time, or if it follows a slow one in one story', async (t) => {
  const events = await runFiles(t, { 'slow.mjs': SLOW_FILE });
  const failures = Object.fromEntries(events.filter(({ type }) => type === 'failed').map(({ title, isSlow }) => [title, isSlow]));
  assert.deepEqual(failures, {
    'waits in vain': true,
    'has a cause': true,
    'has a limit': true,
    'compares clocks': true,
    'is wrong': false,
    'story › one': false,
    'story › two': true,
    'story › three': true,
    'suite › one': true,
    'suite › two': false,
  });
});
