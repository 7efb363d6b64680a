// `npm test`: sets everything up and runs every check of the project.

import { parseCommandLine } from './lib/command-line.mjs';
import { hasPassed, hashOf, recordPassed } from './lib/changed.mjs';
import { CHECKS, PARTS } from './lib/checks.mjs';
import { main, UserError } from './lib/errors.mjs';
import { runChecks, summarize } from './lib/lanes.mjs';
import { setup } from './lib/setup.mjs';

const USAGE = `Usage: npm test -- [options]

  --changed     run only the checks and test files whose inputs changed since they last passed here
  --only PART   run one part: rust (format, lints, native tests), wasm (scripts, build, size, deploy dry run), web
                (the console: types, tests, build, size), e2e (builds, all end-to-end tests) or browser (builds, those of
                the console); may be given more than once
  --file FILE   run one test file of Node, such as tests/e2e/push.test.mjs, and the builds that it needs; may be given
                more than once
  --keep-going  go on after a check that failed
  --verbose     show the output of checks that pass, too
  --help        this text

A native test alone: cargo test NAME.

The console's end-to-end tests need Chromium (CHROMIUM=PATH, when it is not where it usually is). Without one they are
left out, which the summary says; REQUIRE_BROWSER=1 makes that a failure.`;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const started = Date.now();
  await setup();
  const planned = plan(options);
  if (planned.length === 0 && !options.changed) throw new UserError('No check matches both --only and --file.');
  if (planned.length === 0) {
    console.log('Nothing has changed since every check passed.');
    return 0;
  }
  const checks = planned.map(({ passes, ...check }) => ({
    ...check,
    run: async (report) => {
      await check.run(report);
      recordPassed(passes);
    },
  }));
  const results = await runChecks(checks, options);
  summarize(results, Date.now() - started);
  return [...results.values()].every(({ state }) => state === 'passed' || state === 'left out') ? 0 : 1;
});

/** @param {string[]} args */
function parseOptions(args) {
  const { 'keep-going': keepGoing, ...options } = parseCommandLine(args, USAGE, {
    changed: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    file: { type: 'string', multiple: true, default: [] },
    'keep-going': { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  });
  const unknown = options.only.find((part) => !PARTS.includes(part));
  if (unknown !== undefined) throw new UserError(`--only takes ${PARTS.join(', ')}, not ${unknown}.`, USAGE);
  const files = CHECKS.flatMap((check) => check.files?.() ?? []);
  const missing = options.file.find((file) => !files.includes(file));
  if (missing !== undefined) throw new UserError(`There is no test file ${missing}.`, `The test files are:\n  ${files.join('\n  ')}`);
  return { ...options, keepGoing };
}

/**
 * The checks to run, each with what is recorded when it passes.
 * @param {{changed: boolean, only: string[], file: string[]}} options
 */
function plan({ changed, only, file }) {
  const isAsked = ({ parts }) => only.length === 0 || parts.some((part) => only.includes(part));
  const chosen = CHECKS.filter(isAsked)
    .map((check) => (check.files ? withFiles(check, { changed, file }) : withInputs(check)))
    .filter(({ passes }) => Object.entries(passes).some(([name, hash]) => !changed || !hasPassed(name, hash)))
    .filter(({ files }) => file.length === 0 || files);
  // What the chosen ones need comes along; it is quick when nothing has changed.
  const needed = new Set(chosen.flatMap(({ after = [] }) => after));
  const planned = (check) => chosen.find(({ title }) => title === check.title) ?? (needed.has(check.title) ? withInputs(check) : undefined);
  return CHECKS.map(planned).filter((check) => check !== undefined);
}

/** @param {import('./lib/checks.mjs').ProjectCheck} check */
function withInputs(check) {
  return { ...check, passes: { [check.title]: hashOf(check.inputs) } };
}

/**
 * A check with the test files that are to run. With `changed` these are the ones that have not passed as they are now.
 * @param {import('./lib/checks.mjs').ProjectCheck} check
 * @param {{changed: boolean, file: string[]}} options
 */
function withFiles(check, { changed, file }) {
  const shared = hashOf(check.inputs);
  const passes = Object.fromEntries(check.files().map((name) => [name, `${shared} ${hashOf([name])}`]));
  const isChosen = ([name, hash]) => (file.length === 0 || file.includes(name)) && !(changed && hasPassed(name, hash));
  const chosen = Object.fromEntries(Object.entries(passes).filter(isChosen));
  return { ...check, passes: chosen, run: (report) => check.run(report, Object.keys(chosen)) };
}
