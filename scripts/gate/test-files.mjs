// Runs Node test files in a program of their own, the longest first.

import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { CACHE_DIR, inProject, ROOT } from '../lib/paths.mjs';
import { run } from '../lib/run.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';
import { logFolder } from './runs.mjs';
import { measureSlowness } from './slowness.mjs';

/** Time limit of a test on a fast computer. A file has no limit, because some have many tests. */
const TEST_TIMEOUT_MS = 5 * 60_000;

/** The JSON file with the duration of each test file, in milliseconds. */
const DURATIONS_FILE = path.join(CACHE_DIR, 'test-durations.json');

/** How many of the last lines of a file's output a failure has. */
const OUTPUT_LINES = 20;

/** The folder in which Node keeps compiled modules, which makes a start of wrangler a fifth cheaper. */
const COMPILE_CACHE = path.join(CACHE_DIR, 'compiled');

/** By which factor time limits are longer here, measured once. @type {number | undefined} */
let slowness;

/** What a file prints if the hub or the page broke. Such a failure has a cause other than a busy computer. */
const BROKEN = /panicked at|^Errors of the page:/m;

/**
 * @typedef {object} TestFailure
 * @property {string} file relative to the project's root
 * @property {string} title the names of the test and of its suites
 * @property {string} error with its stack
 * @property {string[]} output the last lines that the file printed before
 * @property {boolean} isSlow whether the test failed because something took too long, so that it may pass on an idle computer
 */

/**
 * @typedef {object} TestRun
 * @property {number} passed number of passed tests
 * @property {number} skipped
 * @property {string[]} [passedFiles] the test files all of whose tests passed; a skipped test has not passed
 * @property {TestFailure[]} failures
 * @property {{name: string, ms: number}[]} [durations] of the tests
 * @property {number} [pauseMs] the longest time for which the test program could not run
 */

/**
 * Runs test files. Does not fail if tests fail.
 * @param {string[]} files relative to the project's root
 * @param {object} options
 * @param {number} options.concurrency how many files run at a time
 * @param {(state: string) => void} options.setProgress
 * @param {(line: string) => void} options.addLine called for each line of output
 * @param {(line: string) => void} options.addResult called for each reason for which tests were skipped
 * @param {Record<string, string>} [options.env] added to the environment of the tests
 * @returns {Promise<TestRun>}
 */
export async function runTestFiles(files, { concurrency, setProgress, addLine, addResult, env = {} }) {
  if (files.length === 0) throw new UserError('There are no test files.');
  const durations = readDurations();
  const ordered = files.toSorted((one, other) => (durations[other] ?? Infinity) - (durations[one] ?? Infinity) || 0);
  /** @type {TestRun} */
  const result = { passed: 0, skipped: 0, failures: [], durations: [], pauseMs: 0 };
  /** How the tests of each file ended. @type {Map<string, string[]>} */
  const states = new Map();
  /** @type {Map<string, string[]>} */
  const outputs = new Map();
  /** @type {Set<string>} */
  const brokenFiles = new Set();
  /** @type {Set<string>} */
  const skipReasons = new Set();
  const logs = logFolder();
  const log = (file, text) => appendFileSync(path.join(logs, `${file.replaceAll('/', ' ') || 'other'}.log`), text);
  const handleEvent = ({ type, file: absolute, title, ms, error, text, isSlow, reason }) => {
    const file = absolute === undefined ? '' : path.relative(ROOT, absolute).replaceAll('\\', '/');
    if (type === 'output') {
      log(file, text);
      if (BROKEN.test(text)) brokenFiles.add(file);
      const lines = text.replace(/\n$/, '').split('\n');
      outputs.set(file, [...(outputs.get(file) ?? []), ...lines].slice(-OUTPUT_LINES));
      if (file !== '') lines.forEach((line) => addLine(line));
    } else if (type === 'end') durations[file] = Math.round(ms);
    else if (type === 'pause') result.pauseMs = ms;
    else if (type === 'skipped') {
      result.skipped += 1;
      if (reason) skipReasons.add(`Skipped: tests of ${file}. ${reason}`);
    } else if (type === 'passed' || type === 'failed') {
      const line = `${type === 'passed' ? '✔' : '✖'} ${file} ${title} (${Math.round(ms)} ms)`;
      addLine(line);
      log(file, `${line}\n${error ? `${error}\n` : ''}`);
      result.durations.push({ name: `${file} › ${title}`, ms });
      if (type === 'passed') result.passed += 1;
      else {
        const output = outputs.get(file) ?? [];
        // A file that ends before its tests start prints its error.
        const isSlowFile = title === absolute && output.some((one) => one.includes('TimeoutError'));
        result.failures.push({ file, title, error, output, isSlow: isSlow || isSlowFile });
      }
    }
    const failed = result.failures.length > 0 ? `, ${result.failures.length} failed` : '';
    setProgress(`${result.passed} passed${failed}`);
    if (['passed', 'skipped', 'failed'].includes(type)) states.set(file, [...(states.get(file) ?? []), type]);
  };
  const onLine = (line) => {
    if (!line.startsWith('{"type":')) return addLine(line);
    handleEvent(JSON.parse(line));
    return true;
  };
  // Emptied once in a run, because each run copies modules to new temporary folders.
  if (slowness === undefined) rmSync(COMPILE_CACHE, { recursive: true, force: true });
  slowness ??= measureSlowness();
  const timeoutMs = Math.round(TEST_TIMEOUT_MS * slowness);
  const options = { files: ordered.map((file) => inProject(file)), concurrency, timeoutMs };
  await run(nodeBinary(), [inProject('scripts', 'gate', 'test-program.mjs'), JSON.stringify(options)], {
    onLine,
    env: { ...LOCAL_COMMAND_ENV, NODE_COMPILE_CACHE: COMPILE_CACHE, TEST_SLOWNESS: slowness.toFixed(2), ...env },
  });
  writeDurations(durations);
  skipReasons.forEach((line) => addResult(line));
  result.passedFiles = files.filter((file) => states.get(file)?.every((state) => state === 'passed') && !states.has(''));
  for (const failure of result.failures) failure.isSlow &&= !brokenFiles.has(failure.file);
  return result;
}

/** Returns the durations of earlier runs. A file without a duration may be long, so it runs first. @returns {Record<string, number>} */
function readDurations() {
  try {
    return JSON.parse(readFileSync(DURATIONS_FILE, 'utf8'));
  } catch {
    return {};
  }
}

/** @param {Record<string, number>} durations */
function writeDurations(durations) {
  mkdirSync(CACHE_DIR, { recursive: true });
  writeFileSync(DURATIONS_FILE, `${JSON.stringify(durations, null, 2)}\n`);
}
