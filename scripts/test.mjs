// `npm test`: sets everything up and runs every check of the project.

import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { build, describe } from './build.mjs';
import { findBrowser } from './lib/browser.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { buildConsole, checkConsoleTypes, describeConsole } from './lib/console.mjs';
import { main, tell, UserError } from './lib/errors.mjs';
import { nodeBinary } from './lib/node.mjs';
import { inProject } from './lib/paths.mjs';
import { bold, dim, elapsed, green, red, yellow } from './lib/progress.mjs';
import { run } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { isStopping } from './lib/signals.mjs';
import { isOwnWarning, OFFLINE, wranglerCommand } from './lib/wrangler.mjs';

const WASM = 'wasm32-unknown-unknown';

/** What the worker may weigh, compressed as it is uploaded: about a quarter of what every plan of the platform takes. */
const WASM_BUDGET_BYTES = 800_000;

/** What the web console may fetch before it shows anything, compressed: a second on a slow phone's network. */
const FIRST_LOAD_BUDGET_BYTES = 250_000;

/** A test file that neither passes nor fails within this time is stuck. */
const TEST_TIMEOUT_MS = 5 * 60_000;

const USAGE = `Usage: npm test -- [options]

  --only PART   run one part: rust (format, lints, native tests), wasm (scripts, build, size, deploy dry run), web
                (the console: types, tests, build, size), e2e (builds, all end-to-end tests) or browser (builds, those of
                the console); may be given more than once
  --keep-going  go on after a step that failed
  --help        this text

The console's end-to-end tests need Chromium (CHROMIUM=PATH, when it is not where it usually is). Without one they are
left out, which the summary says; REQUIRE_BROWSER=1 makes that a failure.`;

/**
 * @typedef {object} Check
 * @property {string} title
 * @property {string[]} parts
 * @property {() => string | undefined} [needs] why it cannot be done on this machine, and what would help
 * @property {() => Promise<unknown>} run
 */

/** @type {Check[]} */
const CHECKS = [
  { title: 'Rust format', parts: ['rust'], run: () => cargo('fmt', '--check') },
  {
    title: 'Clippy, host',
    parts: ['rust'],
    run: () => cargo('clippy', '--locked', '--all-targets', '--', '-D', 'warnings'),
  },
  {
    title: 'Clippy, wasm',
    parts: ['rust'],
    run: () => cargo('clippy', '--locked', '--target', WASM, '--lib', '--', '-D', 'warnings'),
  },
  { title: 'Native tests', parts: ['rust'], run: () => cargo('test', '--locked') },
  { title: 'Tests of the scripts and the glue', parts: ['wasm'], run: () => nodeTests(['scripts/test', 'src/platform']) },
  { title: 'Wasm build and size', parts: ['wasm', 'e2e', 'browser'], run: buildWithinBudget },
  { title: 'Types of the web console', parts: ['web'], run: checkConsoleTypes },
  { title: 'Tests of the web console', parts: ['web'], run: () => nodeTests(['web/test']) },
  { title: 'Web console build and size', parts: ['web', 'wasm', 'e2e', 'browser'], run: buildConsoleWithinBudget },
  { title: 'End-to-end tests', parts: ['e2e'], run: () => nodeTests(['tests/e2e', 'examples/shell-agent/test']) },
  { title: 'The web console in a browser', parts: ['e2e', 'browser'], needs: needsBrowser, run: () => nodeTests(['tests/e2e/console']) },
  { title: 'Deploy, dry run', parts: ['wasm'], run: deployWithoutWarnings },
];

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const checks = CHECKS.filter(({ parts }) => options.only.length === 0 || parts.some((part) => options.only.includes(part)));
  const results = [await perform({ title: 'Set-up', run: setup })];
  for (const check of results[0].passed ? checks : []) {
    results.push(await perform(check));
    const { passed, leftOut } = results.at(-1);
    if (!passed && !leftOut && !options.keepGoing) break;
  }
  summarize(results, [{ title: 'Set-up' }, ...checks]);
  return results.every(({ passed, leftOut }) => passed || leftOut) ? 0 : 1;
});

/** @param {string[]} args */
function parseOptions(args) {
  const { only, 'keep-going': keepGoing, help } = parseCommandLine(args, USAGE, {
    only: { type: 'string', multiple: true, default: [] },
    'keep-going': { type: 'boolean', default: false },
  });
  const parts = new Set(CHECKS.flatMap((check) => check.parts));
  const unknown = only.find((part) => !parts.has(part));
  if (unknown !== undefined) throw new UserError(`--only takes ${[...parts].join(', ')}, not ${unknown}.`, USAGE);
  return { only, keepGoing, help };
}

/** @param {Pick<Check, 'title' | 'needs' | 'run'>} check */
async function perform({ title, needs, run: work }) {
  console.log(`\n${bold(`── ${title}`)}`);
  const missing = needs?.();
  if (missing !== undefined && !process.env.REQUIRE_BROWSER) {
    console.log(`${yellow('!')} Left out: ${missing}`);
    return { title, passed: false, leftOut: missing, ms: 0 };
  }
  const started = Date.now();
  let passed = true;
  try {
    await work();
  } catch (error) {
    passed = false;
    if (!isStopping()) tell(error);
  }
  const ms = Date.now() - started;
  console.log(`${passed ? green('✓') : red('✗')} ${title} ${dim(elapsed(ms))}`);
  return { title, passed, ms };
}

/** @param {...string} args */
function cargo(...args) {
  return run('cargo', args, { show: true });
}

async function buildWithinBudget() {
  const built = await build();
  console.log(describe(built));
  if (built.gzipBytes > WASM_BUDGET_BYTES) {
    throw new UserError(
      `The wasm is ${built.gzipBytes} bytes after gzip; its budget is ${WASM_BUDGET_BYTES}.`,
      'See what grew with: npx twiggy top build/index_bg.wasm, or raise WASM_BUDGET_BYTES in scripts/test.mjs with a reason.',
    );
  }
}

async function buildConsoleWithinBudget() {
  const built = await buildConsole();
  console.log(describeConsole(built));
  if (built.firstLoadBytes > FIRST_LOAD_BUDGET_BYTES) {
    throw new UserError(
      `The web console fetches ${built.firstLoadBytes} bytes before it shows anything; its budget is ${FIRST_LOAD_BUDGET_BYTES}.`,
      'Import what is not needed at once with `import()`; `ls -S web/dist/assets` shows what is large.',
    );
  }
}

async function deployWithoutWarnings() {
  const warnings = [];
  const onLine = (line) => {
    console.log(line);
    if (isOwnWarning(line)) warnings.push(line.trim());
  };
  await run(...wranglerCommand(['deploy', '--dry-run']), { env: OFFLINE, onLine });
  if (warnings.length > 0) throw new UserError(`wrangler warns of what would be deployed:\n${warnings.join('\n')}`);
}

function needsBrowser() {
  if (findBrowser()) return undefined;
  return 'there is no Chromium on this machine. On Debian: apt-get install chromium; else name one with CHROMIUM=PATH.';
}

/** @param {string[]} folders */
async function nodeTests(folders) {
  const files = folders.flatMap(testFiles);
  if (files.length === 0) throw new UserError(`There are no tests: no *.test.mjs or *.test.ts in ${folders.join(', ')}.`);
  // Each file starts a runtime of its own beside its clients.
  const concurrency = Math.max(1, Math.min(4, availableParallelism()));
  const options = ['--test', '--test-reporter=spec', `--test-concurrency=${concurrency}`, `--test-timeout=${TEST_TIMEOUT_MS}`];
  await run(nodeBinary(), [...options, ...files], { show: true, env: OFFLINE });
}

/** @param {string} folder */
function testFiles(folder) {
  try {
    const names = readdirSync(inProject(folder)).filter((name) => /\.test\.(mjs|ts)$/.test(name));
    return names.sort().map((name) => `${folder}/${name}`);
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * @param {{title: string, passed: boolean, leftOut?: string, ms: number}[]} results
 * @param {{title: string}[]} planned
 */
function summarize(results, planned) {
  const width = Math.max(...planned.map(({ title }) => title.length));
  console.log(`\n${bold('── Summary')}`);
  for (const { title } of planned) {
    const result = results.find((one) => one.title === title);
    const state = !result ? dim('not run') : result.leftOut ? yellow('left out') : result.passed ? green('passed ') : red('failed ');
    console.log(`  ${title.padEnd(width)}  ${state}  ${result && !result.leftOut ? elapsed(result.ms).padStart(12) : ''}`.trimEnd());
  }
  const total = results.reduce((sum, { ms }) => sum + ms, 0);
  const failed = results.filter(({ passed, leftOut }) => !passed && !leftOut).map(({ title }) => title);
  const leftOut = results.filter((result) => result.leftOut);
  for (const { title, leftOut: why } of leftOut) console.log(yellow(`Left out: ${title}, because ${why}`));
  if (failed.length === 0) console.log(green(`Everything ${leftOut.length > 0 ? 'else ' : ''}passed in ${elapsed(total)}.`));
  else console.log(red(`Failed: ${failed.join(', ')}. What went wrong stands above, under that heading.`));
}
