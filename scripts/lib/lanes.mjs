// Runs checks in parallel lanes. A lane runs its checks in order. A check also waits for the checks on which it depends in other lanes.

import { printError } from './errors.mjs';
import { formatDuration, dim, green, printAbove, red, runStep, yellow } from './progress.mjs';
import { isStopping } from './signals.mjs';

/**
 * @typedef {object} Check
 * @property {string} title
 * @property {string} lane
 * @property {string[]} [after] the titles of the checks on which this check depends
 * @property {() => string | undefined | Promise<string | undefined>} [skipReason] returns why the check cannot run on this computer.
 *   Called at the start, so that it can install tools for the check while dependencies run. Must not reject
 * @property {(report: Report) => Promise<unknown>} run
 */

/**
 * @typedef {object} Report
 * @property {(state: string) => void} setProgress sets the progress that is displayed
 * @property {(line: string) => void} addLine adds a line of output, printed if the check fails or with `verbose`
 * @property {(line: string) => void} addResult adds a line that is always printed
 * @property {(passed: number, failed: number) => void} addTestCounts adds to the numbers of passed and failed tests
 */

/**
 * @typedef {object} Result
 * @property {'passed' | 'failed' | 'skipped' | 'not run'} state
 * @property {number} ms
 * @property {number} passed number of passed tests
 * @property {number} failed number of failed tests
 * @property {string} [reason] why the check was skipped
 */

const NOT_STARTED = { ms: 0, passed: 0, failed: 0 };

/**
 * Runs checks. After a failure, no further check starts, unless `keepGoing` is set.
 * @param {Check[]} checks ordered: dependencies first
 * @param {{keepGoing: boolean, verbose: boolean}} options `verbose`: also prints the output of checks that pass
 * @returns {Promise<Map<string, Result>>} by title
 */
export async function runChecks(checks, { keepGoing, verbose }) {
  const results = new Map();
  /** For each title, a promise that resolves when the check has a result. */
  const completions = new Map();
  /** For each lane, the promise of the last check that was added. */
  const lastOfLane = new Map();
  let hasFailed = false;

  const runInOrder = async (check) => {
    const skipReason = check.skipReason?.();
    const dependencies = (check.after ?? []).filter((title) => completions.has(title));
    await Promise.all([...dependencies.map((title) => completions.get(title)), lastOfLane.get(check.lane)]);
    const hasUnmetDependency = dependencies.some((title) => results.get(title).state !== 'passed');
    if (hasUnmetDependency || (hasFailed && !keepGoing)) return { ...NOT_STARTED, state: 'not run' };
    const reason = await skipReason;
    if (reason !== undefined) {
      printAbove(`  ${yellow('!')} Skipped: ${check.title}. ${reason}`);
      return { ...NOT_STARTED, state: 'skipped', reason };
    }
    const result = await runCheck(check, verbose);
    hasFailed ||= result.state === 'failed';
    return result;
  };

  for (const check of checks) {
    const work = runInOrder(check).then((result) => results.set(check.title, result));
    completions.set(check.title, work);
    lastOfLane.set(check.lane, work);
  }
  await Promise.all(completions.values());
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
  const tests = { passed: 0, failed: 0 };
  const report = {
    addLine: (line) => outputLines.push(line),
    addResult: (line) => resultLines.push(line),
    addTestCounts: (passed, failed) => {
      tests.passed += passed;
      tests.failed += failed;
    },
  };
  let failure;
  try {
    await runStep(check.title, (setProgress) => check.run({ ...report, setProgress }));
  } catch (error) {
    failure = error;
  }
  const ms = Date.now() - started;
  if (failure && isStopping()) return { ...tests, state: 'failed', ms };
  if ((failure || verbose) && outputLines.length > 0) printAbove(`\n${outputLines.join('\n')}\n`);
  resultLines.forEach((line) => printAbove(`    ${line}`));
  if (failure) {
    printError(failure);
    printAbove(`\n${red('✗')} ${check.title} failed after ${formatDuration(ms)}; see its output above.\n`);
  }
  return { ...tests, state: failure ? 'failed' : 'passed', ms };
}

/**
 * @param {Map<string, Result>} results
 * @param {number} ms duration of the whole run
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
  const failed = withState('failed').map(([title]) => title);
  const sum = (count) => [...results.values()].reduce((total, result) => total + result[count], 0);
  console.log(`\n${sum('passed')} passed, ${sum('failed')} failed\n`);
  if (failed.length > 0) console.log(red(`Failed after ${formatDuration(ms)}: ${failed.join(', ')}. See the output above.`));
  else console.log(green(`${withState('skipped').length > 0 ? 'All other checks' : 'All checks'} passed in ${formatDuration(ms)}.`));
}
