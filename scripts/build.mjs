// `npm run build`: compiles the crate to wasm and bundles it into build/, and builds the web console into web/dist/. Does
// nothing when no input changed.
//
// worker-build compiles, binds and bundles; its own wasm-opt step is left out, because it keeps the names of
// functions, a quarter of the size. wasm-opt (npm package binaryen) runs here instead. It takes longer than
// the compiler, so `npm run dev` goes without it: HUB_BUILD=dev.
//
// `wrangler deploy` and `wrangler dev` start this too ([build] in wrangler.toml).

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { parseCommandLine } from './lib/command-line.mjs';
import { buildConsole, describeConsole } from './lib/console.mjs';
import { isMain, main, tell, UserError } from './lib/errors.mjs';
import { addFiles } from './lib/inputs.mjs';
import { withLock } from './lib/lock.mjs';
import { BUILD_DIR, exe, inProject } from './lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress, step } from './lib/progress.mjs';
import { run } from './lib/run.mjs';
import { buildTools, setup } from './lib/setup.mjs';
import { cargoTools } from './lib/versions.mjs';

const USAGE = `Usage: npm run build

Compiles the hub to wasm and bundles it into build/, and builds the web console into web/dist/. Sets up first what that
needs, and does nothing when no input changed since the last time.

  --help  this text

HUB_BUILD=dev leaves the optimiser out, as \`npm run dev\` does: faster to build, and larger.`;

/** Files and folders whose content decides what the build makes. */
const INPUTS = ['src', 'migrations', '.cargo', 'build.rs', 'Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml', 'scripts/build.mjs'];

const OUTPUTS = ['index.js', 'index_bg.wasm'];
const STAMP = path.join(BUILD_DIR, 'stamp.json');

// What rustc's wasm32-unknown-unknown uses by itself, and the exceptions of wasm-bindgen's catch wrappers. Named one
// by one, so that a newer binaryen makes nothing that the runtime does not know yet.
const WASM_FEATURES = [
  'mutable-globals',
  'sign-ext',
  'nontrapping-float-to-int',
  'bulk-memory',
  'multivalue',
  'reference-types',
  'exception-handling',
];

/**
 * @typedef {object} Built
 * @property {string} inputs hash over everything that went in
 * @property {boolean} optimized
 * @property {number} wasmBytes
 * @property {number} gzipBytes the wasm as it is uploaded
 * @property {boolean} [fresh] nothing had to be done
 */

/**
 * Builds when an input changed.
 * @param {{optimize?: boolean}} [options] an optimised build also serves who asks for none
 * @returns {Promise<Built>}
 */
export async function build({ optimize = true } = {}) {
  const existing = upToDate(optimize);
  if (existing) return existing;
  return withLock(path.join(BUILD_DIR, '.lock'), 'build', async () => {
    const made = upToDate(optimize);
    if (made) return made;
    // Taken before the compiler runs: what is edited meanwhile is built by the next run.
    const inputs = hashInputs();
    rmSync(STAMP, { force: true });
    await step('wasm build', compile);
    nameSnippetsOnce();
    if (optimize) await step('wasm-opt', shrink);
    const wasm = readFileSync(path.join(BUILD_DIR, 'index_bg.wasm'));
    const built = {
      inputs,
      optimized: optimize,
      wasmBytes: wasm.length,
      gzipBytes: gzipSync(wasm, { level: 9 }).length,
    };
    writeFileSync(STAMP, `${JSON.stringify(built, null, 2)}\n`);
    return built;
  });
}

/** @param {Built} built */
export function describe({ optimized, wasmBytes, gzipBytes, fresh }) {
  const kilobytes = (bytes) => `${Math.round(bytes / 1000)} KB`;
  const state = fresh ? 'is up to date' : 'is built';
  const kind = optimized ? '' : ', not optimised';
  return `  The worker ${state}: ${kilobytes(wasmBytes)} of wasm, ${kilobytes(gzipBytes)} gzip${kind}.`;
}

/**
 * What was built, when no input changed since.
 * @param {boolean} optimize
 * @returns {Built | undefined}
 */
export function upToDate(optimize) {
  if (!OUTPUTS.every((name) => existsSync(path.join(BUILD_DIR, name)))) return undefined;
  let stamp;
  try {
    stamp = JSON.parse(readFileSync(STAMP, 'utf8'));
  } catch {
    return undefined;
  }
  const good = stamp.inputs === hashInputs() && (stamp.optimized || !optimize);
  return good ? { ...stamp, fresh: true } : undefined;
}

function hashInputs() {
  const hash = createHash('sha256');
  hash.update(JSON.stringify(cargoTools()));
  hash.update(process.env.RUSTFLAGS ?? '');
  return addFiles(hash, INPUTS).digest('hex');
}

/** @param {(state: string) => void} update */
async function compile(update) {
  const { workerBuild, wasmBindgen, wasmOpt } = buildTools();
  mkdirSync(BUILD_DIR, { recursive: true });
  // The three variables keep worker-build from fetching programs of its own.
  const env = {
    ...CARGO_PROGRESS,
    CARGO_TERM_COLOR: process.stderr.isTTY ? 'always' : 'never',
    WASM_BINDGEN_BIN: wasmBindgen,
    WASM_OPT_BIN: wasmOpt,
    ESBUILD_BIN: esbuild(),
    // The compiler's message is the cause; where worker-build noticed it is not.
    RUST_BACKTRACE: '0',
    RUST_LIB_BACKTRACE: '0',
  };
  const isProgress = cargoProgress(update);
  await run(workerBuild, ['--release', '--no-opt'], {
    env,
    onLine: (line) => isProgress(line) || line.startsWith('[INFO]'),
  });
}

/**
 * wasm-bindgen names a file of snippets once for each of its functions that wasm calls without anything between them.
 * wrangler's bundler warns of such an object, whose keys come more than once.
 */
function nameSnippetsOnce() {
  const file = path.join(BUILD_DIR, 'index.js');
  writeFileSync(file, withoutRepeated(readFileSync(file, 'utf8')));
}

/**
 * @param {string} script
 * @returns {string} the same without the second and later entries of a snippet file
 */
export function withoutRepeated(script) {
  const named = new Set();
  return script.replace(/,"(\.\/snippets\/[^"]+)":[\w$]+/g, (entry, file) => {
    if (named.has(file)) return '';
    named.add(file);
    return entry;
  });
}

/** esbuild's own program: the npm package's starter would do the same, one Node start later. */
function esbuild() {
  const require = createRequire(inProject('package.json'));
  const platform = `@esbuild/${process.platform}-${process.arch}`;
  try {
    const folder = path.dirname(require.resolve(`${platform}/package.json`));
    return process.platform === 'win32' ? path.join(folder, exe('esbuild')) : path.join(folder, 'bin', 'esbuild');
  } catch {
    throw new UserError(`The npm package ${platform} is missing.`, 'Install it with: npm ci');
  }
}

/** Optimises for size and drops the names. */
async function shrink() {
  const wasm = path.join(BUILD_DIR, 'index_bg.wasm');
  const smaller = path.join(BUILD_DIR, 'index_bg.smaller.wasm');
  const features = WASM_FEATURES.map((name) => `--enable-${name}`);
  await run(process.execPath, [buildTools().wasmOpt, wasm, '-o', smaller, '-O3', ...features]);
  renameSync(smaller, wasm);
}

/** What the command line does. */
async function buildFromCommandLine() {
  if (parseCommandLine(process.argv.slice(2), USAGE).help) {
    console.log(USAGE);
    return;
  }
  const forDev = process.env.HUB_BUILD === 'dev';
  try {
    await setup();
    console.log(describe(await build({ optimize: !forDev })));
    console.log(describeConsole(await buildConsole()));
  } catch (error) {
    if (!forDev) throw error;
    // `wrangler dev` would print this error again, inside an object of its own. It goes on with what was built last.
    tell(error);
    console.error('\nThe hub runs on as it was before this change.');
  }
}

if (isMain(import.meta.url)) await main(buildFromCommandLine);
