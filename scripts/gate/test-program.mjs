// Runs test files with Node's test runner, and prints each event as one line of JSON. test-files.mjs starts this program with the Node of
// the tests.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { run } from 'node:test';
import { inspect } from 'node:util';

/** @type {{files: string[], concurrency: number, timeoutMs: number}} `timeoutMs`: of each test */
const { files, concurrency, timeoutMs } = JSON.parse(process.argv[2]);

/** The tests and suites by key. `parent`: the key of the enclosing test or suite. @type {Map<string, {name: string, isSuite: boolean, parent: string}>} */
const tests = new Map();

/** The keys of the tests in which something was too slow. Their later subtests may fail because of that. @type {Set<string>} */
const slowTests = new Set();

/**
 * Returns the names of a test and of its suites.
 * @param {string} key
 * @param {string} name of a test that has not started: a hook of the file has failed
 * @returns {string}
 */
function titleOf(key, name) {
  const test = tests.get(key) ?? { name, parent: '' };
  return tests.has(test.parent) ? `${titleOf(test.parent, '')} › ${test.name}` : test.name;
}

/** Returns the key of the outermost test that a test is a part of. Suites do not count: their tests do not depend on each other. */
function outermostTest(/** @type {string} */ key) {
  const parent = tests.get(key)?.parent;
  return tests.has(parent) && !tests.get(parent).isSuite ? outermostTest(parent) : key;
}

/** @param {any} error */
const textOf = ({ cause, message }) => (cause instanceof Error ? inspect(cause) : String(cause ?? message));

/** Whether an error says that something took too long: a wait of the tests or of Playwright, a signal's limit, or the limit of a test. */
function isTimeout(/** @type {any} */ error) {
  if (error?.failureType === 'testTimeoutFailure') return true;
  // An error of another process has the name in its stack alone.
  const isNamed = error?.name === 'TimeoutError' || /^(Error \[)?TimeoutError\b/.test(error?.stack ?? '');
  return isNamed || (error?.cause !== undefined && isTimeout(error.cause));
}

/** Whether a failed test may pass when the computer is less busy. */
function isSlow(key, error, tags) {
  const test = outermostTest(key);
  if (isTimeout(error) || tags.includes('timing')) slowTests.add(test);
  return slowTests.has(test);
}

const print = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

const pauses = monitorEventLoopDelay();
pauses.enable();

for await (const { type, data } of run({ files, concurrency, execArgv: [`--test-timeout=${timeoutMs}`] })) {
  const { name, details, message, testId, parentId, tags = [] } = /** @type {any} */ (data);
  const file = /** @type {any} */ (data).entryFile ?? /** @type {any} */ (data).file;
  const key = `${file} ${testId}`;
  if (type === 'test:enqueue') tests.set(key, { name, isSuite: data.type === 'suite', parent: `${file} ${parentId}` });
  else if (type === 'test:stdout' || type === 'test:stderr' || type === 'test:diagnostic') print({ type: 'output', file, text: message });
  else if (type === 'test:summary' && file !== undefined) print({ type: 'end', file, ms: data.duration_ms });
  // A suite fails because of its tests, or because of a hook.
  else if (type === 'test:fail' && details.error.failureType !== 'subtestsFailed') {
    const failure = { title: titleOf(key, name), error: textOf(details.error), isSlow: isSlow(key, details.error, tags) };
    print({ type: 'failed', file, ms: details.duration_ms, ...failure });
  } else if (type === 'test:pass') {
    // Of a skipped suite, no test is reported.
    const { skip } = /** @type {any} */ (data);
    if (skip !== undefined) print({ type: 'skipped', file, title: titleOf(key, name), reason: skip === true ? undefined : skip });
    else if (details.type !== 'suite') print({ type: 'passed', file, title: titleOf(key, name), ms: details.duration_ms });
  }
}
print({ type: 'pause', ms: pauses.max / 1e6 });
