// Runs test files with Node's test runner, and prints each event as one line of JSON. test-files.mjs starts this program with the Node of
// the tests.

import { run } from 'node:test';
import { inspect } from 'node:util';

/** @type {{files: string[], concurrency: number, timeoutMs: number}} `timeoutMs`: of each test */
const { files, concurrency, timeoutMs } = JSON.parse(process.argv[2]);

/** The tests that have started: the name, and the key of the enclosing suite. @type {Map<string, {name: string, parent: string}>} */
const started = new Map();

/**
 * Returns the names of a test and of its suites.
 * @param {string} key
 * @param {string} name of a test that has not started: a hook of the file has failed
 * @returns {string}
 */
function titleOf(key, name) {
  const test = started.get(key) ?? { name, parent: '' };
  return started.has(test.parent) ? `${titleOf(test.parent, '')} › ${test.name}` : test.name;
}

/** @param {any} error */
const textOf = ({ cause, message }) => (cause instanceof Error ? inspect(cause) : String(cause ?? message));

const print = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

for await (const { type, data } of run({ files, concurrency, execArgv: [`--test-timeout=${timeoutMs}`] })) {
  const { name, details, message, testId, parentId } = /** @type {any} */ (data);
  const file = /** @type {any} */ (data).entryFile ?? /** @type {any} */ (data).file;
  const key = `${file} ${testId}`;
  if (type === 'test:start') started.set(key, { name, parent: `${file} ${parentId}` });
  else if (type === 'test:stdout' || type === 'test:stderr' || type === 'test:diagnostic') print({ type: 'output', file, text: message });
  else if (type === 'test:summary' && file !== undefined) print({ type: 'end', file, ms: data.duration_ms });
  // A suite fails because of its tests, or because of a hook.
  else if (type === 'test:fail' && details.error.failureType !== 'subtestsFailed')
    print({ type: 'failed', file, title: titleOf(key, name), ms: details.duration_ms, error: textOf(details.error) });
  else if (type === 'test:pass' && details.type !== 'suite') {
    const { skip } = /** @type {any} */ (data);
    print({ type: skip === undefined ? 'passed' : 'skipped', file, title: titleOf(key, name), ms: details.duration_ms });
  }
}
