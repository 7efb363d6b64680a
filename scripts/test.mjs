// `npm test`: installs missing tools and runs the checks of the project.

import path from 'node:path';
import { hasPassed, hashOf, recordPassed } from './lib/gate/changed.mjs';
import { CHECKS, PARTS } from './lib/gate/checks.mjs';
import { closeMatches } from './lib/close-matches.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UsageError } from './lib/errors.mjs';
import { runChecks, summarize } from './lib/gate/phases.mjs';
import { committedTree, logFolder, readRuns, recordRun } from './lib/gate/runs.mjs';
import { setup } from './lib/setup.mjs';

const USAGE = `Usage: npm test -- [options]

  --changed     run only checks and test files whose inputs changed since they last passed
  --only PART   run one part; repeatable:
                rust (format, lints, native tests), wasm (scripts with their types, build, size, deployment dry run),
                web (the console's types, tests, build, size), cli (types and tests of the CLIs),
                e2e (builds, all end-to-end tests), browser (builds, the console's end-to-end tests, also with real agents)
  --file FILE   run one Node test file, such as tests/e2e/push.test.mjs, after the builds that it needs; repeatable
  --long        run what \`npm run test:long\` runs instead: tests with real clocks, memory, new seeds and all agents; 30 to 60 minutes
  --verbose     also show the output of checks that pass
  --help        this text

To run one native test: cargo test NAME

The console's end-to-end tests need Chromium; CHROMIUM=PATH is its path if it is not found. The tests with real agents
download the agents from the npm registry once. Tests that lack Chromium, an agent or the previous commit are
skipped; with REQUIRE_BROWSER=1, REQUIRE_AGENTS=1 and REQUIRE_PREVIOUS=1 they fail instead.`;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const started = Date.now();
  await setup();
  const planned = planChecks(options);
  if (planned.length === 0 && !options.changed) {
    throw new UsageError('No check matches both --only and --file.', 'Leave one of the two out.');
  }
  if (planned.length === 0) {
    console.log('Nothing to run: no input has changed since the checks last passed.');
    return 0;
  }
  const checks = planned.map(({ passes, ...check }) => ({
    ...check,
    run: async (report) => {
      const tests = await check.run(report);
      if (!tests || tests.failures.length === 0) recordPassed(passes);
      return tests;
    },
  }));
  const tree = isWhole(options) ? committedTree() : undefined;
  const earlier = tree && readRuns().findLast((run) => run.tree === tree);
  if (earlier) console.log(`These files have passed already, at ${earlier.at}.`);
  const results = await runChecks(checks, options);
  const ms = Date.now() - started;
  const { isGreen, passed, flaky } = summarize(results, ms);
  if (!isGreen || flaky.length > 0) console.log(`What each test file printed: ${logFolder()}`);
  if (!isGreen) return 1;
  if (tree) recordRun({ tree, passed, flaky, seconds: Math.round(ms / 1000), at: new Date().toISOString() });
  return 0;
});

/** Whether all checks of `npm test` run. */
function isWhole({ changed, only, file, long }) {
  return !changed && !long && only.length === 0 && file.length === 0;
}

/** @param {string[]} args */
function parseOptions(args) {
  const options = parseCommandLine(args, USAGE, {
    changed: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    file: { type: 'string', multiple: true, default: [] },
    long: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  });
  const unknown = options.only.find((part) => !PARTS.includes(part));
  if (unknown !== undefined) throw new UsageError(`--only must be one of ${PARTS.join(', ')}, not ${unknown}.`, USAGE);
  const files = CHECKS.flatMap((check) => check.files?.() ?? []);
  const missing = options.file.find((file) => !files.includes(file));
  if (missing !== undefined) throw noSuchFileError(missing, files);
  return options;
}

/**
 * @param {string} name
 * @param {string[]} files all test files
 */
function noSuchFileError(name, files) {
  const matches = closeMatches(name, files);
  const folders = [...new Set(files.map((file) => path.posix.dirname(file)))];
  const hint =
    matches.length > 0
      ? `Did you mean ${matches.join(' or ')}?`
      : `Test files are in ${folders.join(', ')}. Example: --file tests/e2e/push.test.mjs`;
  return new UsageError(`--file: there is no test file ${name}.`, hint);
}

/**
 * Selects the checks to run. Adds `passes` to each check: the hashes of its inputs, which are recorded when the check passes.
 * @param {{changed: boolean, only: string[], file: string[], long: boolean}} options
 */
function planChecks({ changed, only, file, long }) {
  const isInPart = ({ parts, isLong = false }) =>
    (isLong === long || file.length > 0) && (only.length === 0 || parts.some((part) => only.includes(part)));
  const chosen = CHECKS.filter(isInPart)
    .map((check) => (check.files ? limitToFiles(check, { changed, file }) : addInputHash(check)))
    .filter(({ passes }) => Object.entries(passes).some(([name, hash]) => !changed || !hasPassed(name, hash)))
    .filter(({ files }) => file.length === 0 || files);
  // The dependencies of chosen checks always run, because these checks are builds, and a build that is up to date does nothing.
  const needed = new Set(chosen.flatMap(({ after = [] }) => after));
  const select = (/** @type {import('./lib/gate/checks.mjs').ProjectCheck} */ { title, ...check }) =>
    chosen.find((candidate) => candidate.title === title) ?? (needed.has(title) ? addInputHash({ title, ...check }) : undefined);
  return CHECKS.map(select).filter((check) => check !== undefined);
}

/** @param {import('./lib/gate/checks.mjs').ProjectCheck} check */
function addInputHash(check) {
  return { ...check, passes: { [check.title]: hashOf(check.inputs) } };
}

/**
 * Limits a check to the test files to run. With `changed`, these are the files that have not passed with their current inputs.
 * @param {import('./lib/gate/checks.mjs').ProjectCheck} check
 * @param {{changed: boolean, file: string[]}} options
 */
function limitToFiles(check, { changed, file }) {
  const sharedHash = hashOf(check.inputs);
  const passes = Object.fromEntries(check.files().map((name) => [name, `${sharedHash} ${hashOf([name])}`]));
  const isChosen = ([name, hash]) => (file.length === 0 || file.includes(name)) && !(changed && hasPassed(name, hash));
  const chosen = Object.fromEntries(Object.entries(passes).filter(isChosen));
  return { ...check, passes: chosen, run: (report) => check.run(report, Object.keys(chosen)) };
}
