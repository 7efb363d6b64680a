// `npm test`: sets everything up and runs every check of the project.

import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { build, describe } from './build.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, tell, UserError } from './lib/errors.mjs';
import { nodeBinary } from './lib/node.mjs';
import { inProject } from './lib/paths.mjs';
import { bold, dim, elapsed, green, red } from './lib/progress.mjs';
import { run } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { isStopping } from './lib/signals.mjs';
import { OFFLINE, wranglerCommand } from './lib/wrangler.mjs';

const WASM = 'wasm32-unknown-unknown';

/** What the worker may weigh, compressed as it is uploaded: a fifth of what every plan of the platform takes. */
const WASM_BUDGET_BYTES = 600_000;

/** A test file that neither passes nor fails within this time is stuck. */
const TEST_TIMEOUT_MS = 5 * 60_000;

const USAGE = `Usage: npm test -- [options]

  --only PART   run one part: rust (format, lints, native tests), wasm (scripts, build, size, deploy dry run) or
                e2e (build, end-to-end tests); may be given more than once
  --keep-going  go on after a step that failed
  --help        this text`;

/** @typedef {{title: string, parts: string[], run: () => Promise<unknown>}} Check */

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
  { title: 'Wasm build and size', parts: ['wasm', 'e2e'], run: buildWithinBudget },
  { title: 'End-to-end tests', parts: ['e2e'], run: () => nodeTests(['tests/e2e', 'examples/shell-agent/test']) },
  {
    title: 'Deploy, dry run',
    parts: ['wasm'],
    run: () => run(...wranglerCommand(['deploy', '--dry-run']), { show: true, env: OFFLINE }),
  },
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
    if (!results.at(-1).passed && !options.keepGoing) break;
  }
  summarize(results, [{ title: 'Set-up' }, ...checks]);
  return results.every(({ passed }) => passed) ? 0 : 1;
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

/** @param {{title: string, run: () => Promise<unknown>}} check */
async function perform({ title, run: work }) {
  console.log(`\n${bold(`── ${title}`)}`);
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

/** @param {string[]} folders */
async function nodeTests(folders) {
  const files = folders.flatMap(testFiles);
  if (files.length === 0) throw new UserError(`There are no tests: no *.test.mjs in ${folders.join(', ')}.`);
  // Each file starts a runtime of its own beside its clients.
  const concurrency = Math.max(1, Math.min(4, availableParallelism()));
  const options = ['--test', '--test-reporter=spec', `--test-concurrency=${concurrency}`, `--test-timeout=${TEST_TIMEOUT_MS}`];
  await run(nodeBinary(), [...options, ...files], { show: true, env: OFFLINE });
}

/** @param {string} folder */
function testFiles(folder) {
  try {
    const names = readdirSync(inProject(folder)).filter((name) => name.endsWith('.test.mjs'));
    return names.sort().map((name) => `${folder}/${name}`);
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * @param {{title: string, passed: boolean, ms: number}[]} results
 * @param {{title: string}[]} planned
 */
function summarize(results, planned) {
  const width = Math.max(...planned.map(({ title }) => title.length));
  console.log(`\n${bold('── Summary')}`);
  for (const { title } of planned) {
    const result = results.find((one) => one.title === title);
    const state = !result ? dim('not run') : result.passed ? green('passed ') : red('failed ');
    console.log(`  ${title.padEnd(width)}  ${state}  ${result ? elapsed(result.ms).padStart(12) : ''}`.trimEnd());
  }
  const total = results.reduce((sum, { ms }) => sum + ms, 0);
  const failed = results.filter(({ passed }) => !passed).map(({ title }) => title);
  if (failed.length === 0) console.log(green(`Everything passed in ${elapsed(total)}.`));
  else console.log(red(`Failed: ${failed.join(', ')}. What went wrong stands above, under that heading.`));
}
