// `npm run fuzz`: lets cargo-fuzz look for inputs that break a property of what the hub parses, and tells what it found.
// The targets stand in fuzz/src, their seeds in fuzz/seeds; `cargo test --test it fuzz` runs these without a fuzzer.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseCommandLine } from './lib/command-line.mjs';
import { CommandFailed, main, UserError } from './lib/errors.mjs';
import { inProject } from './lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress, red, step } from './lib/progress.mjs';
import { run } from './lib/run.mjs';
import { fuzzTool, installFuzzTool, installNightly, nightlyIsReady, NIGHTLY } from './lib/rust.mjs';
import { isStopping } from './lib/signals.mjs';

const FUZZ_DIR = inProject('fuzz');

/** How long one input may take, in seconds. */
const INPUT_TIMEOUT = 10;

/** The longest input that is tried, in bytes; a larger one is seldom another case. */
const MAX_INPUT = 4096;

const TARGETS = readdirSync(path.join(FUZZ_DIR, 'seeds'))
  .sort()
  .map((name) => path.basename(name, '.jsonl'));

const USAGE = `Usage: npm run fuzz -- [options]

Runs the fuzz targets one after another, and installs first what that needs: Rust ${NIGHTLY} and cargo-fuzz. A target ends
with its time or with its first finding.

  --only TARGET  run one target; may be given more than once:
                 ${TARGETS.join(', ')}
  --seconds N    how long each of them runs, 300 by default
  --help         this text`;

await main(async () => {
  const { only, seconds, help } = readOptions(process.argv.slice(2));
  if (help) {
    console.log(USAGE);
    return 0;
  }
  await prepare();
  const findings = [];
  for (const target of only) {
    const finding = await fuzz(target, seconds);
    if (finding) findings.push(finding);
  }
  findings.forEach(report);
  return findings.length === 0 ? 0 : 1;
});

/** @param {string[]} args */
function readOptions(args) {
  const { only, seconds, help } = parseCommandLine(args, USAGE, {
    only: { type: 'string', multiple: true, default: TARGETS },
    seconds: { type: 'string', default: '300' },
  });
  const unknown = only.find((target) => !TARGETS.includes(target));
  if (unknown !== undefined) throw new UserError(`There is no target ${unknown}.`, USAGE);
  if (!/^[1-9]\d{0,6}$/.test(seconds)) throw new UserError(`--seconds takes a whole number, not ${seconds}.`, USAGE);
  return { only, seconds: Number(seconds), help };
}

/** Everything between a fresh clone and the first input. */
async function prepare() {
  if (!nightlyIsReady()) await step(`Rust ${NIGHTLY}`, installNightly);
  if (!fuzzTool()) await step('cargo-fuzz', installFuzzTool, { note: 'is compiled once, which takes about a minute.' });
  await step('fuzz targets', (update) => {
    const isProgress = cargoProgress(update);
    return cargoFuzz(['build'], { env: CARGO_PROGRESS, onLine: isProgress });
  });
}

/**
 * Without a sanitizer: there is no unsafe code to be watched, and the search is several times as fast.
 * @param {string[]} args
 * @param {{env?: Record<string, string>, onLine: (line: string) => boolean | void}} options
 */
function cargoFuzz([command, ...args], { env = {}, onLine }) {
  const options = { env: { ...env, RUSTUP_TOOLCHAIN: NIGHTLY, RUSTFLAGS: undefined }, onLine };
  return run(fuzzTool(), [command, '--sanitizer', 'none', ...args], options);
}

/**
 * Runs a target.
 * @param {string} target
 * @param {number} seconds
 * @returns {Promise<{target: string, input: string | undefined, why: string} | undefined>} what was found, if anything
 */
async function fuzz(target, seconds) {
  const corpus = plant(target);
  const found = path.join(FUZZ_DIR, 'artifacts', target);
  rmSync(found, { recursive: true, force: true });
  const limits = [`-max_total_time=${seconds}`, `-timeout=${INPUT_TIMEOUT}`, `-max_len=${MAX_INPUT}`];
  try {
    await step(target, (update) => {
      const onLine = (line) => {
        const state = line.match(/^#(\d+)\s.*\bcov: (\d+)/);
        if (state) update(`${state[1]} inputs, ${state[2]} branches`);
        return state !== null;
      };
      return cargoFuzz(['run', target, corpus, '--', ...limits], { onLine });
    });
  } catch (error) {
    if (!(error instanceof CommandFailed) || isStopping()) throw error;
    const [file] = names(found);
    const input = file && readFileSync(path.join(found, file), 'utf8');
    // What failed was no input: the target itself did not run.
    if (input === undefined) throw error;
    return { target, input, why: why(error.output) };
  }
  return undefined;
}

/**
 * Puts the seeds beside what earlier runs collected.
 * @param {string} target
 * @returns {string} the folder
 */
function plant(target) {
  const folder = path.join(FUZZ_DIR, 'corpus', target);
  mkdirSync(folder, { recursive: true });
  for (const line of readFileSync(path.join(FUZZ_DIR, 'seeds', `${target}.jsonl`), 'utf8').split('\n').filter(Boolean)) {
    const seed = JSON.parse(line);
    writeFileSync(path.join(folder, createHash('sha1').update(seed).digest('hex')), seed);
  }
  return folder;
}

/** @param {string} folder */
function names(folder) {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * What a target said when it failed: the panic's message, or what the fuzzer itself has to complain of.
 * @param {string} output
 */
function why(output) {
  const [, panic] = output.match(/(thread .* panicked at [\s\S]*?)\n(?:stack backtrace|note: run with|==\d+==)/) ?? [];
  return (panic ?? output.match(/^==\d+== ?(?:ERROR: )?(.*)$/m)?.[1] ?? output).trim();
}

/** @param {{target: string, input: string, why: string}} finding */
function report({ target, input, why: reason }) {
  console.log(`
${red(`${target} failed:`)}
${reason}

  Make this line the last of fuzz/seeds/${target}.jsonl:
${JSON.stringify(input)}
  Then this fails until the fault is mended, and keeps it away afterwards:
cargo test --test it fuzz`);
}
