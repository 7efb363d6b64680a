// `npm test`: installs missing tools and runs the checks of the project.

import path from 'node:path';
import { CHECKS, PARTS } from './checks.mjs';
import { closeMatches } from '../lib/close-matches.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { hasPassed, keysOf, recordPassed } from './passes.mjs';
import { REPEATED_PHASES, runChecks, summarize } from './phases.mjs';
import { committedTree, logFolder, readRuns, recordRun } from './runs.mjs';
import { ensureToolchain, setup } from '../build/setup.mjs';
import { runParallel } from '../lib/run.mjs';

const USAGE = `Usage: npm test -- [options]

  --changed     do not repeat tests of the built hub and of the console either, if their inputs have not changed since they passed
  --only PART   run one part; repeatable:
                rust (format, lints, native tests), wasm (scripts with their types, build, size, deployment dry run),
                web (the console's types, tests, build, size), cli (types and tests of the CLIs),
                e2e (builds, all end-to-end tests), browser (builds, the console's end-to-end tests, also with real agents)
  --file FILE   run one Node test file, such as tests/e2e/push.test.mjs, after the builds that it needs; repeatable
  --long        run what \`npm run test:long\` runs instead: tests with real clocks, memory, new seeds and all agents; 30 to 60 minutes
  --verbose     also show the output of checks that pass
  --help        this text

To run one native test: cargo test NAME

Builds, linters and tests without a real clock are not repeated if their inputs and tools have not changed since they passed, in any
clone of this user; with FORGET_PASSED=1, they are.

The console's end-to-end tests need Chromium; CHROMIUM=PATH is its path if it is not found. The tests with real agents
download the agents from the npm registry once. Tests that lack Chromium, an agent or the previous commit are
skipped; with REQUIRE_BROWSER=1, REQUIRE_AGENTS=1 and REQUIRE_PREVIOUS=1 they fail instead.`;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  const started = Date.now();
  // The keys of the passes have the compiler's version.
  await ensureToolchain();
  const planned = planChecks(options);
  const due = planned.filter(({ names }) => names.length > 0);
  if (planned.length === 0) throw new UsageError('No check matches both --only and --file.', 'Leave one of the two out.');
  const remembered = planned.flatMap(describeRemembered);
  if (remembered.length > 0) console.log(`  Passed before, with the same inputs (FORGET_PASSED=1 repeats them): ${remembered.join(', ')}.`);
  if (due.length === 0) return 0;
  const tree = isWhole(options) ? committedTree() : undefined;
  const earlier = tree && readRuns().findLast((run) => run.tree === tree);
  if (earlier) console.log(`  This commit has passed already, at ${earlier.at}. With --changed, nothing is repeated.`);
  const withTools = due.map((check) => ({ tools: setup, ...check }));
  const [results] = await runParallel(() => runChecks(withTools, options), setup);
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
 * Selects the checks to run.
 * @param {{changed: boolean, only: string[], file: string[], long: boolean}} options
 */
function planChecks({ changed, only, file, long }) {
  const isInPart = ({ parts, isLong = false }) =>
    (isLong === long || file.length > 0) && (only.length === 0 || parts.some((part) => only.includes(part)));
  const isAlwaysRun = long || file.length > 0 || process.env.FORGET_PASSED === '1';
  const isRepeated = ({ phase }) => isAlwaysRun || (REPEATED_PHASES.includes(phase) && !changed);
  const chosen = CHECKS.filter(isInPart)
    .map((check) => planCheck(check, { file, isRepeated: isRepeated(check) }))
    .filter(({ all }) => all.length > 0);
  // Builds that chosen checks need always run: a build that is up to date does nothing.
  const needed = new Set(chosen.flatMap(({ names, after = [] }) => (names.length > 0 ? after : [])));
  return CHECKS.flatMap((check) =>
    needed.has(check.title) ? planCheck(check, { file: [], isRepeated: true }) : chosen.filter(({ title }) => title === check.title),
  );
}

/**
 * Adds to a check the `names` that run: its test files, or its title. `all` has also those that have passed before.
 * @param {import('./checks.mjs').ProjectCheck} check
 * @param {{file: string[], isRepeated: boolean}} options
 */
function planCheck(check, { file, isRepeated }) {
  const everything = check.files?.() ?? [check.title];
  const all = file.length > 0 ? everything.filter((name) => file.includes(name)) : everything;
  const keys = all.length > 0 ? keysOf(check, all) : {};
  const names = all.filter((name) => isRepeated || !hasPassed(keys[name]));
  const run = async (report) => {
    const tests = (await check.run(report, names)) || undefined;
    const passed = tests?.passedFiles ?? (tests?.failures.length > 0 ? [] : names);
    // A file that was edited during the run may not have been tested as it is now.
    const now = keysOf(check, names);
    recordPassed(passed.map((name) => keys[name]).filter((key) => Object.values(now).includes(key)));
    return tests;
  };
  return { ...check, all, names, run };
}

/** Returns what of a check is not repeated. */
function describeRemembered({ title, all, names }) {
  if (all.length === names.length) return [];
  return names.length === 0 ? title : `${title} (${all.length - names.length} of ${all.length} files)`;
}
