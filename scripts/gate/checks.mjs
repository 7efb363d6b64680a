// The checks of `npm test`, with their inputs, by phase (phases.mjs).

import { randomInt } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { installAgent } from '../build/agents.mjs';
import { biomeCommand } from '../build/biome.mjs';
import { describeOtherVersion, findBrowser } from './browser.mjs';
import { CRATE_INPUTS } from '../build/build.mjs';
import { CONSOLE_INPUTS, checkConsoleTypes, checkJavaScriptTypes } from '../build/console.mjs';
import { UserError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { buildPrevious, findPreviousCommit } from '../build/previous.mjs';
import { run } from '../lib/run.mjs';
import { ensureToolchain } from '../build/setup.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';
import { buildConsoleWithinBudget, buildWithinBudget } from './budgets.mjs';
import { cargo, CHECK_TARGET_DIR, runNativeTests } from './cargo.mjs';
import {
  CLIS,
  CLI_TEST_INPUTS,
  E2E_INPUTS,
  JAVASCRIPT_TYPE_INPUTS,
  NATIVE_INPUTS,
  SCRIPT_TEST_INPUTS,
  WASM_INPUTS,
  WEB_TYPE_INPUTS,
} from './inputs.mjs';
import { expiredEntries } from './quarantine.mjs';
import { readRuns } from './runs.mjs';
import { runTestFiles } from './test-files.mjs';

const WASM = 'wasm32-unknown-unknown';

/**
 * How many test files run at a time on two cores, by phase. Each file starts its own runtime and clients. The files of `runtime` wait for
 * clocks and processes for half of their time.
 */
const CONCURRENCY = { pure: 2, runtime: 3, browser: 2 };

/** The check that builds the worker of the previous commit, and the test that needs it. */
const PREVIOUS_WORKER = 'Worker of the previous commit';
const SKEW_TEST = 'tests/e2e/skew.test.mjs';

/**
 * The end-to-end tests of `npm run test:long`: they wait for real clocks, measure memory and costs, start dozens of processes, or need
 * Prometheus. `npm test` has shorter tests of the same subjects.
 */
const LONG_TESTS = [
  'compare',
  'costs',
  'deploy-faults',
  'deploy-variants',
  'dev',
  'idle',
  'prometheus',
  'size-memory',
  'slow-bodies',
  'slow-streams',
  'upgrade-faults',
  'upload-memory',
].map((name) => `tests/e2e/${name}.test.mjs`);

/** The fields of checks that test the built hub. @type {Pick<ProjectCheck, 'phase' | 'after' | 'parts'>} */
const HUB_TESTS = { phase: 'runtime', after: ['Wasm build and size', 'Web console build and size'], parts: ['e2e'] };

/** How many new seeds of the simulation `npm run test:long` runs. */
const NEW_SEEDS = 2_000;

/** The real agents that `npm test` tests. `npm run test:agents` tests all agents. */
const AGENTS_IN_BROWSER = ['claude', 'opencode'];

/**
 * @typedef {Omit<import('./phases.mjs').Check, 'run'> & ProjectCheckFields} ProjectCheck
 * @typedef {object} ProjectCheckFields
 * @property {string[]} parts the values of `--only` that select this check
 * @property {string[]} inputs files and folders that the check reads. A pass is remembered until one of them changes. The test files of
 *   `files` and the inputs of all checks (passes.mjs) need not be listed
 * @property {() => string[]} [files] returns all test files of the check
 * @property {boolean} [isLong] whether the check belongs to `npm run test:long`
 * @property {(report: import('./phases.mjs').Report, chosen?: string[]) => Promise<import('./phases.mjs').TestRun | void>} run `chosen`: the test files to run
 */

/** @type {ProjectCheck[]} */
export const CHECKS = [
  {
    title: 'Native tests, build',
    phase: 'build',
    tools: ensureToolchain,
    parts: ['rust'],
    inputs: NATIVE_INPUTS,
    run: (report) => cargo(report, ['test', '--locked', '--no-run']),
  },
  {
    title: 'Wasm build and size',
    phase: 'build',
    parts: ['wasm', 'e2e', 'browser'],
    inputs: WASM_INPUTS,
    run: buildWithinBudget,
  },
  {
    title: 'Clippy, host',
    phase: 'build',
    tools: ensureToolchain,
    parts: ['rust'],
    inputs: [...NATIVE_INPUTS, 'clippy.toml'],
    run: (report) => cargo(report, ['clippy', ...CHECK_TARGET_DIR, '--locked', '--all-targets', '--', '-D', 'warnings']),
  },
  {
    title: PREVIOUS_WORKER,
    phase: 'build',
    parts: ['e2e'],
    inputs: [],
    skipReason: skipReasonWithoutPreviousCommit,
    run: buildPreviousWorker,
  },
  {
    title: 'Clippy, wasm',
    phase: 'build',
    tools: ensureToolchain,
    parts: ['rust'],
    inputs: [...CRATE_INPUTS, 'clippy.toml'],
    run: (report) => cargo(report, ['clippy', ...CHECK_TARGET_DIR, '--locked', '--target', WASM, '--lib', '--', '-D', 'warnings']),
  },
  {
    // Documented for the target wasm, because only the wasm build has the module `platform`.
    title: 'Rust documentation',
    phase: 'build',
    tools: ensureToolchain,
    parts: ['rust'],
    inputs: CRATE_INPUTS,
    run: (report) =>
      cargo(report, ['doc', ...CHECK_TARGET_DIR, '--locked', '--no-deps', '--document-private-items', '--lib', '--target', WASM], {
        RUSTDOCFLAGS: '-D warnings',
      }),
  },
  {
    title: 'Rust format',
    phase: 'build',
    tools: ensureToolchain,
    parts: ['rust'],
    inputs: [...CRATE_INPUTS, 'tests/it', 'fuzz/src', 'rustfmt.toml', 'tools/bind'],
    run: async (report) => {
      await cargo(report, ['fmt', '--check']);
      await cargo(report, ['fmt', '--check', '--manifest-path', 'tools/bind/Cargo.toml']);
    },
  },
  {
    title: 'Native tests',
    phase: 'pure',
    after: ['Native tests, build'],
    parts: ['rust'],
    inputs: [...NATIVE_INPUTS, 'migrations'],
    run: (report) => runNativeTests(report),
  },
  {
    title: 'Web console build and size',
    phase: 'build',
    parts: ['web', 'wasm', 'e2e', 'browser'],
    inputs: CONSOLE_INPUTS,
    run: buildConsoleWithinBudget,
  },
  {
    title: 'Web console types',
    phase: 'build',
    parts: ['web'],
    inputs: WEB_TYPE_INPUTS,
    run: ({ addLine }) => checkConsoleTypes(toReport(addLine)),
  },
  nodeTests(
    {
      title: 'Web console tests',
      phase: 'pure',
      parts: ['web'],
      inputs: ['web/src', 'web/test/support', 'web/package.json', 'src', 'cli/src'],
    },
    () => testFiles('web/test'),
  ),
  {
    title: 'JavaScript types',
    phase: 'build',
    parts: ['cli', 'wasm'],
    inputs: JAVASCRIPT_TYPE_INPUTS,
    run: ({ addLine }) => checkJavaScriptTypes(toReport(addLine)),
  },
  {
    title: 'JavaScript lint and format',
    phase: 'build',
    parts: ['cli', 'web', 'wasm'],
    inputs: ['biome.jsonc', 'tsconfig.json', ...CLIS, 'scripts', 'src/platform', 'bench', 'tests', 'web'],
    run: async ({ addLine }) => void (await run(...biomeCommand(['check', '--error-on-warnings']), { onLine: toReport(addLine) })),
  },
  nodeTests({ title: 'CLI tests', phase: 'runtime', parts: ['cli'], inputs: CLI_TEST_INPUTS }, () =>
    testFiles('packages/cli-kit/test', 'cli/test', 'cli/test/translate', 'examples/shell-agent/test'),
  ),
  nodeTests(
    {
      title: 'Script and platform tests',
      phase: 'pure',
      parts: ['wasm'],
      inputs: SCRIPT_TEST_INPUTS,
    },
    () => testFiles('scripts/test', 'src/platform'),
  ),
  nodeTests(
    {
      title: 'End-to-end tests',
      ...HUB_TESTS,
      after: [...HUB_TESTS.after, PREVIOUS_WORKER],
      inputs: [...E2E_INPUTS, 'bench', 'CHANGELOG.md', 'LICENSE'],
    },
    () => testFiles('tests/e2e').filter((file) => !LONG_TESTS.includes(file) && (file !== SKEW_TEST || !skipReasonWithoutPreviousCommit())),
  ),
  nodeTests(
    {
      title: 'Coding agents in a browser',
      ...HUB_TESTS,
      phase: 'browser',
      parts: ['e2e', 'browser'],
      inputs: [...E2E_INPUTS, 'tests/e2e/agents'],
      skipReason: installAgentsOrFindSkipReason,
    },
    agentTests,
  ),
  nodeTests(
    {
      title: 'Web console in a browser',
      ...HUB_TESTS,
      phase: 'browser',
      parts: ['e2e', 'browser'],
      inputs: E2E_INPUTS,
      skipReason: skipReasonWithoutBrowser,
      prepare: async ({ addResult }) => {
        const other = describeOtherVersion();
        if (other !== undefined) addResult(other);
      },
    },
    () => testFiles('tests/e2e/console'),
  ),
  {
    title: 'Deploy, dry run',
    phase: 'pure',
    after: HUB_TESTS.after,
    parts: ['wasm'],
    inputs: [...WASM_INPUTS, ...CONSOLE_INPUTS, 'wrangler.toml', 'scripts', 'packages/cli-kit'],
    run: dryRunDeployment,
  },
  {
    title: 'Native tests with new inputs',
    phase: 'pure',
    isLong: true,
    after: ['Native tests, build'],
    parts: ['rust'],
    inputs: [],
    run: (report) =>
      runNativeTests(report, { PROPTEST_RNG_SEED: newSeed(report), SIM_FIRST: newSeed(report), SIM_SEEDS: String(NEW_SEEDS) }),
  },
  {
    ...nodeTests({ title: 'Web console tests with new inputs', phase: 'pure', parts: ['web'], inputs: [] }, () => []),
    isLong: true,
    files: undefined,
    run: (report) =>
      runTestFiles(testFiles('web/test'), { ...report, concurrency: CONCURRENCY.pure, env: { FAST_CHECK_SEED: newSeed(report) } }),
  },
  nodeTests(
    {
      title: 'Long end-to-end tests',
      ...HUB_TESTS,
      isLong: true,
      inputs: [...E2E_INPUTS, 'bench'],
    },
    () => LONG_TESTS,
  ),
  command('Kills of the runtime', ['scripts/dev/kills.mjs', '--kills', '20']),
  command('Version skew over several changes', ['scripts/dev/skew.mjs']),
  command('All coding agents', ['scripts/dev/test-agents.mjs']),
  command('Soak test of the bridge', ['scripts/dev/soak-agents.mjs']),
  {
    title: 'No flaky test in the last runs, and no old quarantine',
    phase: 'browser',
    isLong: true,
    parts: ['e2e'],
    inputs: [],
    run: async () => {
      const flaky = new Set(readRuns().flatMap((run) => run.flaky.map((name) => `${name}: failed at first in one of the last runs`)));
      const lines = [...flaky, ...expiredEntries()];
      if (lines.length > 0) throw new UserError(`Find the causes of these failures:\n${lines.join('\n')}`);
    },
  },
];

/** The names that `--only` takes. A check with several parts runs with each of them. `wasm` includes the scripts and the deployment. */
export const PARTS = [...new Set(CHECKS.flatMap(({ parts }) => parts))];

/** Returns a new seed, and prints it, so that a failure can be repeated. @param {import('./phases.mjs').Report} report */
function newSeed({ addResult }) {
  const seed = String(randomInt(2 ** 32));
  addResult(`Seed ${seed}`);
  return seed;
}

/**
 * A check of `npm run test:long` that runs a script.
 * @param {string} title
 * @param {string[]} args the script and its arguments
 * @returns {ProjectCheck}
 */
function command(title, [script, ...args]) {
  const runScript = async ({ addLine }) =>
    void (await run(process.execPath, [inProject(script), ...args], { onLine: toReport(addLine), env: LOCAL_COMMAND_ENV }));
  return { title, phase: 'runtime', isLong: true, parts: ['e2e'], inputs: [], run: runScript };
}

/** @param {import('./phases.mjs').Report} report */
async function buildPreviousWorker({ setProgress, addResult }) {
  const commit = await buildPrevious(setProgress);
  addResult(`The previous commit is ${commit.slice(0, 12)}.`);
}

/** Returns why the check is skipped. With REQUIRE_PREVIOUS, the check is not skipped, but fails with this reason. */
function skipReasonWithoutPreviousCommit() {
  return process.env.REQUIRE_PREVIOUS ? undefined : findPreviousCommit().reason;
}

/**
 * Returns an `onLine` for `run` that sends each line to the report. The function returns true, so that an error of `run` does not repeat the line.
 * @param {import('./phases.mjs').Report['addLine']} addLine
 */
const toReport = (addLine) => (/** @type {string} */ text) => {
  addLine(text);
  return true;
};

/** @param {import('./phases.mjs').Report} report */
async function dryRunDeployment({ addLine }) {
  await run(nodeBinary(), [inProject('scripts', 'product', 'deploy.mjs'), '--dry-run'], {
    env: LOCAL_COMMAND_ENV,
    onLine: toReport(addLine),
  });
}

function skipReasonWithoutBrowser() {
  if (findBrowser() || process.env.REQUIRE_BROWSER) return undefined;
  return 'Chromium was not found. On Debian: apt-get install chromium; otherwise set CHROMIUM=PATH.';
}

function agentTests() {
  return AGENTS_IN_BROWSER.map((name) => `tests/e2e/agents/${name}.test.mjs`);
}

/** Installs the agents of the tests. Returns a reason to skip the check if there is no browser, or if an agent could not be installed. */
async function installAgentsOrFindSkipReason() {
  const reason = skipReasonWithoutBrowser();
  if (reason !== undefined) return reason;
  try {
    await Promise.all(AGENTS_IN_BROWSER.map(installAgent));
  } catch (error) {
    // With REQUIRE_AGENTS, the tests run and fail with this error.
    if (!process.env.REQUIRE_AGENTS) return error.message;
  }
  return undefined;
}

/**
 * A check that runs test files under Node.
 * @param {Omit<ProjectCheck, 'run' | 'files'> & {prepare?: (report: import('./phases.mjs').Report) => Promise<void>}} check `prepare`:
 *   runs before the test files
 * @param {() => string[]} files
 * @returns {ProjectCheck}
 */
function nodeTests({ prepare, ...check }, files) {
  const runFiles = async (report, chosen = files()) => {
    await prepare?.(report);
    return runTestFiles(chosen, { ...report, concurrency: check.isLong ? 1 : CONCURRENCY[check.phase] });
  };
  // What `npm test` forgives, `npm run test:long` counts.
  const rerun = check.isLong ? undefined : (file, report) => runTestFiles([file], { ...report, concurrency: 1 });
  return { ...check, files, run: runFiles, rerun };
}

/** @param {string[]} folders */
function testFiles(...folders) {
  return folders.flatMap((folder) => {
    const names = readdirSync(inProject(folder)).filter((name) => /\.test\.(mjs|ts)$/.test(name));
    return names.sort().map((name) => `${folder}/${name}`);
  });
}
