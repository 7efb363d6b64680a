// Runs checks in phases. Each phase ends before the next begins, so that no test with a real clock runs beside a compiler. A failure does
// not end the run: all failures are known at its end.

import { inLanes } from '../lib/parallel.mjs';
import { printError } from '../lib/errors.mjs';
import { dim, formatDuration, green, printAbove, red, runStep, yellow } from '../lib/progress.mjs';
import { isStopping } from '../lib/signals.mjs';
import { QUARANTINE } from './quarantine.mjs';

/**
 * The phases in order, with how many checks run at a time:
 * - `build`: formatters, linters, types, builds
 * - `pure`: tests without a real clock
 * - `runtime`: tests of the built hub, and of CLI processes
 * - `browser`: tests of the console in a browser
 * A check of test files runs several files at a time itself.
 */
const PHASES = { build: 2, pure: 1, runtime: 1, browser: 1 };

/**
 * The phases with real clocks. Their test files run in each run, although they passed before, and once more, alone, if their failures are all
 * slow ones.
 */
export const REPEATED_PHASES = ['runtime', 'browser'];

/** How many flaky tests a run may have. More are a fault of the product, of the tests, or of the computer. */
const MAX_FLAKY = 3;

/**
 * @typedef {object} Check
 * @property {string} title
 * @property {keyof typeof PHASES} phase
 * @property {string[]} [after] the titles of the checks of the phase `build` that must pass, or be skipped, before this check
 * @property {() => Promise<void>} [tools] installs what the check needs. If that fails, the run ends
 * @property {() => string | undefined | Promise<string | undefined>} [skipReason] returns why the check cannot run on this computer.
 *   Called at the start, so that it can install tools for the check during the phase `build`. Must not reject
 * @property {(report: Report) => Promise<TestRun | void>} run throws if the check fails, except for failed tests
 * @property {(file: string, report: Report) => Promise<TestRun>} [rerun] runs a test file alone
 */

/**
 * @typedef {import('./test-files.mjs').TestRun} TestRun
 * @typedef {import('./test-files.mjs').TestFailure} TestFailure
 */

/**
 * @typedef {object} Report
 * @property {(state: string) => void} setProgress sets the progress that is displayed
 * @property {(line: string) => void} addLine adds a line of output, printed if the check throws an error or with `verbose`
 * @property {(line: string) => void} addResult adds a line that is always printed
 */

/**
 * @typedef {object} Result
 * @property {'passed' | 'failed' | 'skipped' | 'not run'} state
 * @property {number} ms
 * @property {number} passed number of passed tests
 * @property {TestFailure[]} failures the failed tests
 * @property {TestFailure[]} quarantined the failed tests that are in quarantine
 * @property {TestFailure[]} flaky the tests that failed at first, and passed alone
 * @property {{name: string, ms: number}[]} durations of the tests
 * @property {number} pauseMs the longest time for which the test program could not run
 * @property {string} [reason] why the check was skipped
 */

/** Whether a failed test is in quarantine. @param {TestFailure} failure */
const isQuarantined = ({ file, title }) => QUARANTINE.some(({ test }) => test === `${file} › ${title}`);

/** Ends the step of a check whose tests failed. The summary has their errors. */
class TestsFailed extends Error {}

const NOT_STARTED = { ms: 0, passed: 0, failures: [], quarantined: [], flaky: [], durations: [], pauseMs: 0 };

/**
 * Runs checks. Then runs the test files of {@link REPEATED_PHASES} that failed because something took too long once more, one at a time.
 * @param {Check[]} checks
 * @param {{verbose: boolean}} options `verbose`: also prints the output of checks that pass
 * @returns {Promise<Map<string, Result>>} by title
 */
export async function runChecks(checks, { verbose }) {
  /** @type {Map<string, Result>} */
  const results = new Map();
  const skipReasons = new Map(checks.map((check) => [check.title, check.skipReason?.()]));
  const runUnlessSkipped = async (/** @type {Check} */ check) => {
    const isUnmet = (title) => results.has(title) && !['passed', 'skipped'].includes(results.get(title).state);
    if (check.after?.some(isUnmet)) return { ...NOT_STARTED, state: /** @type {const} */ ('not run') };
    const reason = await skipReasons.get(check.title);
    if (reason === undefined) {
      await check.tools?.();
      return runCheck(check, verbose);
    }
    printAbove(`  ${yellow('!')} Skipped: ${check.title}. ${reason}`);
    return { ...NOT_STARTED, state: /** @type {const} */ ('skipped'), reason };
  };
  for (const [phase, width] of Object.entries(PHASES)) {
    const ofPhase = checks.filter((check) => check.phase === phase);
    await inLanes(ofPhase, width, async (check) => {
      if (!isStopping()) results.set(check.title, await runUnlessSkipped(check));
    });
    if (phase === 'build') await Promise.all(skipReasons.values());
  }
  for (const check of checks) {
    const result = results.get(check.title);
    if (REPEATED_PHASES.includes(check.phase) && check.rerun && result?.failures.length > 0 && !isStopping())
      await rerunFailedFiles(check, result);
  }
  return results;
}

/**
 * @param {Check} check
 * @param {boolean} verbose
 * @returns {Promise<Result>}
 */
async function runCheck(check, verbose) {
  const started = Date.now();
  const outputLines = [];
  const resultLines = [];
  const report = { addLine: (line) => outputLines.push(line), addResult: (line) => resultLines.push(line) };
  /** @type {TestRun} */
  let tests = { passed: 0, skipped: 0, failures: [] };
  let failure;
  try {
    await runStep(check.title, async (setProgress) => {
      const testRun = await check.run({ ...report, setProgress });
      if (testRun) tests = testRun;
      if (tests.failures.length > 0) throw new TestsFailed();
    });
  } catch (error) {
    failure = error;
  }
  const { passed, skipped, failures, durations = [], pauseMs = 0 } = tests;
  const ms = Date.now() - started;
  const result = /** @type {Result} */ ({ state: failure ? 'failed' : 'passed', ms, passed, flaky: [], durations, pauseMs });
  result.failures = failures.filter((one) => !isQuarantined(one));
  result.quarantined = failures.filter(isQuarantined);
  if (result.quarantined.length > 0 && result.failures.length === 0) result.state = 'passed';
  if (isStopping()) return result;
  const hasOnlyFailedTests = failure instanceof TestsFailed;
  if (((failure && !hasOnlyFailedTests) || verbose) && outputLines.length > 0) printAbove(`\n${outputLines.join('\n')}\n`);
  resultLines.forEach((line) => printAbove(`    ${line}`));
  if (skipped > 0) printAbove(`    ${skipped} tests were skipped.`);
  failures.forEach(({ file, title }) => printAbove(`    ${red('Failed:')} ${file} › ${title}`));
  if (failure && !hasOnlyFailedTests) {
    printError(failure);
    printAbove(`\n${red('✗')} ${check.title} failed after ${formatDuration(ms)}; see its output above.\n`);
  }
  return result;
}

/**
 * Runs the test files of a result's failures once more, unless one of their tests got a wrong result. The failures of a file that passes
 * now become flaky tests.
 * @param {Check} check
 * @param {Result} result is changed
 */
async function rerunFailedFiles(check, result) {
  const remaining = [];
  for (const file of new Set(result.failures.map((failure) => failure.file))) {
    const failures = result.failures.filter((failure) => failure.file === file);
    const ignore = () => {};
    const rerun = (setProgress) => check.rerun(file, { setProgress, addLine: ignore, addResult: ignore });
    const again = failures.every(({ isSlow }) => isSlow) ? await runStep(`Again, alone: ${file}`, rerun) : undefined;
    const failuresAgain = again?.failures.filter((one) => !isQuarantined(one)) ?? [];
    if (again && failuresAgain.length === 0) {
      result.flaky.push(...failures);
      result.passed += failures.length;
    } else {
      const isNew = ({ title }) => failures.every((failure) => failure.title !== title);
      remaining.push(...failures, ...failuresAgain.filter(isNew));
    }
  }
  result.failures = remaining;
  if (remaining.length === 0) result.state = 'passed';
}

/**
 * Prints a line for each check, the slowest tests, and the flaky and the failed tests with their errors.
 * @param {Map<string, Result>} results
 * @param {number} ms duration of the whole run
 * @returns {{isGreen: boolean, passed: number, flaky: string[]}} `passed`: number of tests. `flaky`: their names
 */
export function summarize(results, ms) {
  const width = Math.max(...[...results.keys()].map((title) => title.length));
  const paint = { passed: green, failed: red, skipped: yellow, 'not run': dim };
  console.log('\nSummary');
  for (const [title, { state, ms: checkMs }] of results) {
    const time = checkMs > 0 ? formatDuration(checkMs).padStart(12) : '';
    console.log(`  ${title.padEnd(width)}  ${paint[state](state.padEnd(8))} ${time}`.trimEnd());
  }
  const withState = (state) => [...results].filter(([, result]) => result.state === state);
  for (const [title, { reason }] of withState('skipped')) console.log(yellow(`Skipped: ${title}. ${reason}`));
  const all = [...results.values()];
  printSlowest(all);
  const [flaky, failures] = [all.flatMap((result) => result.flaky), all.flatMap((result) => result.failures)];
  const hasTooManyFlaky = flaky.length > MAX_FLAKY;
  if (flaky.length > 0) {
    for (const failure of flaky) printTestFailure(yellow('~'), failure);
    console.log(yellow(`\nflaky: ${flaky.length} (failed at first, passed alone; the errors are above)`));
    for (const { file, title } of flaky) console.log(`  ~ ${file} › ${title}`);
  }
  for (const failure of all.flatMap((result) => result.quarantined)) printTestFailure(yellow('in quarantine'), failure);
  for (const failure of failures) printTestFailure(red('✖'), failure);
  const passed = all.reduce((sum, result) => sum + result.passed, 0);
  console.log(`\n${passed} passed, ${failures.length} failed\n`);
  const failed = withState('failed').map(([title]) => title);
  const isGreen = failed.length === 0 && withState('not run').length === 0 && !hasTooManyFlaky;
  if (failed.length > 0) console.log(red(`Failed after ${formatDuration(ms)}: ${failed.join(', ')}. The errors are above.`));
  else if (hasTooManyFlaky) console.log(red(`Failed after ${formatDuration(ms)}: more than ${MAX_FLAKY} tests are flaky.`));
  else console.log(green(`${withState('skipped').length > 0 ? 'All other checks' : 'All checks'} passed in ${formatDuration(ms)}.`));
  return { isGreen, passed, flaky: flaky.map(({ file, title }) => `${file} › ${title}`) };
}

/** @param {Result[]} results */
function printSlowest(results) {
  const slowest = results.flatMap(({ durations }) => durations).toSorted((one, other) => other.ms - one.ms);
  if (slowest.length === 0) return;
  console.log('\nThe slowest tests');
  for (const { name, ms } of slowest.slice(0, 10)) console.log(`  ${formatDuration(ms).padStart(12)}  ${name}`);
  const pauseMs = Math.max(...results.map((result) => result.pauseMs));
  console.log(dim(`The test program could not run for up to ${Math.round(pauseMs)} ms, because the computer was busy.`));
}

/** @param {string} mark @param {TestFailure} failure */
function printTestFailure(mark, { file, title, error, output }) {
  console.log(`\n${mark} ${file} › ${title}\n${indent(error)}`);
  if (output.length > 0) console.log(dim(`  The last lines of its output:\n${indent(output.join('\n'))}`));
}

const indent = (text) => text.replace(/^/gm, '  ');
