// `npm run fuzz`: runs the fuzz targets of the hub's parsers with cargo-fuzz, and reports the findings. The targets are in fuzz/src,
// and the seeds are in fuzz/seeds. `cargo test --test it fuzz` runs the seeds without a fuzzer.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseCommandLine } from '../lib/command-line.mjs';
import { CommandFailed, main, UsageError } from '../lib/errors.mjs';
import { inProject } from '../lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress, red, runStep } from '../lib/progress.mjs';
import { run } from '../lib/run.mjs';
import { findFuzzTool, installFuzzTool, installNightly, nightlyIsReady, NIGHTLY } from '../build/rust.mjs';
import { isStopping } from '../lib/signals.mjs';

const FUZZ_DIR = inProject('fuzz');

const INPUT_TIMEOUT_S = 10;

/** Limit on the length of an input. Longer inputs slow down the search and rarely reach other branches. */
const MAX_INPUT_BYTES = 4096;

const TARGETS = readdirSync(path.join(FUZZ_DIR, 'seeds'))
  .sort()
  .map((name) => path.basename(name, '.jsonl'));

const USAGE = `Usage: npm run fuzz -- [options]

Runs the fuzz targets one after another. First installs Rust ${NIGHTLY} and cargo-fuzz if they are missing. A target stops
after its time or at its first finding.

  --only TARGET  run one target; repeatable:
                 ${TARGETS.join(', ')}
  --seconds N    how long each target runs (default 300)
  --help         this text`;

await main(async () => {
  const { only, seconds } = readOptions(process.argv.slice(2));
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
  const { only, seconds } = parseCommandLine(args, USAGE, {
    only: { type: 'string', multiple: true, default: TARGETS },
    seconds: { type: 'string', default: '300' },
  });
  const unknown = only.find((target) => !TARGETS.includes(target));
  if (unknown !== undefined) throw new UsageError(`--only: there is no target ${unknown}.`, USAGE);
  if (!/^[1-9]\d{0,6}$/.test(seconds)) throw new UsageError(`--seconds must be a whole number from 1 to 9999999, not ${seconds}.`, USAGE);
  return { only, seconds: Number(seconds) };
}

/** Installs the tools, and builds the fuzz targets. */
async function prepare() {
  if (!nightlyIsReady()) await runStep(`Rust ${NIGHTLY}`, installNightly);
  if (!findFuzzTool()) await runStep('cargo-fuzz', installFuzzTool, { note: 'compiled once, about a minute.' });
  await runStep('fuzz targets', (update) => {
    const isProgress = cargoProgress(update);
    return cargoFuzz(['build'], { env: CARGO_PROGRESS, onLine: isProgress });
  });
}

/**
 * Runs cargo-fuzz without a sanitizer: the crate has no unsafe code, and a sanitizer makes the search several times slower.
 * @param {string[]} args
 * @param {{env?: Record<string, string>, onLine: (line: string) => boolean | void}} options
 */
function cargoFuzz([command, ...args], { env = {}, onLine }) {
  const options = { env: { ...env, RUSTUP_TOOLCHAIN: NIGHTLY, RUSTFLAGS: undefined }, onLine };
  return run(findFuzzTool(), [command, '--sanitizer', 'none', ...args], options);
}

/**
 * Runs a target.
 * @param {string} target
 * @param {number} seconds
 * @returns {Promise<{target: string, input: string, reason: string} | undefined>} the finding, if there is one
 */
async function fuzz(target, seconds) {
  const corpus = addSeeds(target);
  const artifacts = path.join(FUZZ_DIR, 'artifacts', target);
  rmSync(artifacts, { recursive: true, force: true });
  const limits = [`-max_total_time=${seconds}`, `-timeout=${INPUT_TIMEOUT_S}`, `-max_len=${MAX_INPUT_BYTES}`];
  try {
    await runStep(target, (update) => {
      const onLine = (line) => {
        const state = line.match(/^#(\d+)\s.*\bcov: (\d+)/);
        if (state) update(`${state[1]} inputs, ${state[2]} branches`);
        return state !== null;
      };
      return cargoFuzz(['run', target, corpus, '--', ...limits], { onLine });
    });
  } catch (error) {
    if (!(error instanceof CommandFailed) || isStopping()) throw error;
    const [file] = listFiles(artifacts);
    const input = file && readFileSync(path.join(artifacts, file), 'utf8');
    // Without an artifact, the target itself could not be run.
    if (input === undefined) throw error;
    return { target, input, reason: reasonOf(error.output) };
  }
  return undefined;
}

/**
 * Adds the seeds to the corpus of earlier runs.
 * @param {string} target
 * @returns {string} the folder of the corpus
 */
function addSeeds(target) {
  const folder = path.join(FUZZ_DIR, 'corpus', target);
  mkdirSync(folder, { recursive: true });
  for (const line of readFileSync(path.join(FUZZ_DIR, 'seeds', `${target}.jsonl`), 'utf8')
    .split('\n')
    .filter(Boolean)) {
    const seed = JSON.parse(line);
    writeFileSync(path.join(folder, createHash('sha1').update(seed).digest('hex')), seed);
  }
  return folder;
}

/** @param {string} folder */
function listFiles(folder) {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Returns the reason of a failure: the message of the panic, or else the error of the fuzzer.
 * @param {string} output
 */
function reasonOf(output) {
  const [, panic] = output.match(/(thread .* panicked at [\s\S]*?)\n(?:stack backtrace|note: run with|==\d+==)/) ?? [];
  return (panic ?? output.match(/^==\d+== ?(?:ERROR: )?(.*)$/m)?.[1] ?? output).trim();
}

/** @param {{target: string, input: string, reason: string}} finding */
function report({ target, input, reason }) {
  console.log(`
${red(`${target} failed:`)}
${reason}

  Append this line to fuzz/seeds/${target}.jsonl:
${JSON.stringify(input)}
  Then this command fails until the bug is fixed, and later detects a regression:
cargo test --test it fuzz`);
}
