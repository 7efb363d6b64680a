// Runs checks side by side: each lane runs its checks one after another, and a check waits for those that it needs.

import { printError } from './errors.mjs';
import { elapsed, dim, green, printAbove, red, step, yellow } from './progress.mjs';
import { isStopping } from './signals.mjs';

/**
 * @typedef {object} Check
 * @property {string} title
 * @property {string} lane
 * @property {string[]} [after] titles of the checks whose results it uses
 * @property {() => string | undefined} [leftOut] why it cannot be done on this machine
 * @property {(report: Report) => Promise<unknown>} run
 */

/**
 * @typedef {object} Report
 * @property {(state: string) => void} update how far the check is
 * @property {(line: string) => void} line one line of output, shown when the check fails or everything is shown
 * @property {(line: string) => void} result one line that is shown in any case
 * @property {(passed: number, failed: number) => void} countTests adds tests that were run
 */

/**
 * @typedef {object} Result
 * @property {'passed' | 'failed' | 'left out' | 'not run'} state
 * @property {number} ms
 * @property {number} passed how many tests passed in it
 * @property {number} failed how many failed
 * @property {string} [why] it was left out
 */

const NOTHING = { ms: 0, passed: 0, failed: 0 };

/**
 * Runs checks. After the first failure no further one starts, unless `keepGoing`.
 * @param {Check[]} checks ordered: dependencies first
 * @param {{keepGoing: boolean, verbose: boolean}} options `verbose`: shows the output of checks that pass, too
 * @returns {Promise<Map<string, Result>>} by title
 */
export async function runChecks(checks, { keepGoing, verbose }) {
  const results = new Map();
  /** Settled when the check has a result. */
  const finished = new Map();
  const lastOfLane = new Map();
  let isFailed = false;

  const perform = async (check) => {
    const needed = (check.after ?? []).filter((title) => finished.has(title));
    await Promise.all([...needed.map((title) => finished.get(title)), lastOfLane.get(check.lane)]);
    const lacksInput = needed.some((title) => results.get(title).state !== 'passed');
    if (lacksInput || (isFailed && !keepGoing)) return { ...NOTHING, state: 'not run' };
    const why = check.leftOut?.();
    if (why !== undefined) {
      printAbove(`  ${yellow('!')} ${check.title} is left out: ${why}`);
      return { ...NOTHING, state: 'left out', why };
    }
    const result = await runOne(check, verbose);
    isFailed ||= result.state === 'failed';
    return result;
  };

  for (const check of checks) {
    const work = perform(check).then((result) => results.set(check.title, result));
    finished.set(check.title, work);
    lastOfLane.set(check.lane, work);
  }
  await Promise.all(finished.values());
  return results;
}

/**
 * @param {Check} check
 * @param {boolean} verbose
 * @returns {Promise<Result>}
 */
async function runOne(check, verbose) {
  const started = Date.now();
  const output = [];
  const results = [];
  const tests = { passed: 0, failed: 0 };
  const report = {
    line: (line) => output.push(line),
    result: (line) => results.push(line),
    countTests: (passed, failed) => {
      tests.passed += passed;
      tests.failed += failed;
    },
  };
  let failure;
  try {
    await step(check.title, (update) => check.run({ ...report, update }));
  } catch (error) {
    failure = error;
  }
  const ms = Date.now() - started;
  if (failure && isStopping()) return { ...tests, state: 'failed', ms };
  if ((failure || verbose) && output.length > 0) printAbove(`\n${output.join('\n')}\n`);
  results.forEach((line) => printAbove(`    ${line}`));
  if (failure) {
    printError(failure);
    printAbove(`\n${red('✗')} ${check.title} failed after ${elapsed(ms)}; its output is above.\n`);
  }
  return { ...tests, state: failure ? 'failed' : 'passed', ms };
}

/**
 * @param {Map<string, Result>} results
 * @param {number} ms of the whole run
 */
export function summarize(results, ms) {
  const width = Math.max(...[...results.keys()].map((title) => title.length));
  const paint = { passed: green, failed: red, 'left out': yellow, 'not run': dim };
  console.log('\nSummary');
  for (const [title, { state, ms: took }] of results) {
    const time = took > 0 ? elapsed(took).padStart(12) : '';
    console.log(`  ${title.padEnd(width)}  ${paint[state](state.padEnd(8))} ${time}`.trimEnd());
  }
  const withState = (state) => [...results].filter(([, result]) => result.state === state);
  for (const [title, { why }] of withState('left out')) console.log(yellow(`Left out: ${title}, because ${why}`));
  const failed = withState('failed').map(([title]) => title);
  const sum = (count) => [...results.values()].reduce((total, result) => total + result[count], 0);
  console.log(`\n${sum('passed')} passed, ${sum('failed')} failed\n`);
  if (failed.length > 0) console.log(red(`Failed after ${elapsed(ms)}: ${failed.join(', ')}. The output is above, under each title.`));
  else console.log(green(`${withState('left out').length > 0 ? 'Everything else' : 'Everything'} passed in ${elapsed(ms)}.`));
}
