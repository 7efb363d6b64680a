// `npm run build`: compiles the crate to wasm and bundles it into build/, and builds the web console into web/dist/. Does
// nothing when no input changed.
//
// HUB_BUILD=dev makes the development build in build/dev/: compiled again in seconds after a change, and not optimised.
// `wrangler deploy` and `wrangler dev` start this too ([build] in wrangler.toml).

import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { parseCommandLine } from './lib/command-line.mjs';
import { buildConsole, describeConsole } from './lib/console.mjs';
import { isMain, main, printError } from './lib/errors.mjs';
import { addFiles } from './lib/inputs.mjs';
import { withLock } from './lib/lock.mjs';
import { BUILD_DIR, DEV_BUILD_DIR } from './lib/paths.mjs';
import { step } from './lib/progress.mjs';
import { together } from './lib/run.mjs';
import { bindTool } from './lib/rust.mjs';
import { needBindTool, needPackages, needToolchain } from './lib/setup.mjs';
import { bundle, compile } from './lib/worker.mjs';

const USAGE = `Usage: npm run build

Compiles the hub to wasm and bundles it into build/, and builds the web console into web/dist/. Sets up first what that
needs, and does nothing when no input changed since the last time.

  --help  this text

HUB_BUILD=dev makes the build of \`npm run dev\`, in build/dev/: quicker to make, larger and slower to run.`;

/** Files and folders whose content decides what the build makes. */
const INPUTS = ['src', '.cargo', 'Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml', 'package-lock.json', 'scripts/lib/worker.mjs'];

/** The script last: a reload that sees it finds its wasm. */
const OUTPUTS = ['index_bg.wasm', 'index.js'];
const STAMP = 'stamp.json';

/**
 * @typedef {object} Built
 * @property {string} inputs hash over everything that went in
 * @property {boolean} optimized
 * @property {number} wasmBytes
 * @property {number} gzipBytes the wasm as it is uploaded
 * @property {boolean} [fresh] nothing had to be done
 */

/**
 * Builds when an input changed, and sets up what that needs. An optimised build also serves as the development build.
 * @param {{optimize?: boolean}} [options]
 * @returns {Promise<Built>}
 */
export async function build({ optimize = true } = {}) {
  const existing = upToDate(optimize);
  if (existing) return existing;
  const folder = optimize ? BUILD_DIR : DEV_BUILD_DIR;
  return withLock(path.join(folder, '.lock'), 'build', async () => {
    const made = upToDate(optimize);
    if (made) return made;
    mkdirSync(folder, { recursive: true });
    const optimized = optimize ? undefined : upToDate(true);
    if (optimized) return copyOptimized(optimized);
    const [{ inputs, wasm }] = await together(() => compileWorker(optimize), needBindTool, needPackages);
    rmSync(path.join(folder, STAMP), { force: true });
    await step(optimize ? 'wasm bindings and optimiser' : 'wasm bindings', () => bundle(wasm, folder, optimize));
    return stamp(folder, inputs, optimize);
  });
}

/** @param {boolean} optimize */
async function compileWorker(optimize) {
  await needToolchain();
  // Hashed before the compiler runs, so that the next run sees an edit made during this one.
  const inputs = hashInputs();
  return { inputs, wasm: await step('wasm build', (update) => compile(optimize, update)) };
}

/**
 * Makes a copy of the optimised build the development build.
 * @param {Built} built
 */
function copyOptimized(built) {
  rmSync(path.join(DEV_BUILD_DIR, STAMP), { force: true });
  for (const name of OUTPUTS) cpSync(path.join(BUILD_DIR, name), path.join(DEV_BUILD_DIR, name));
  const { fresh: _, ...stamped } = built;
  writeFileSync(path.join(DEV_BUILD_DIR, STAMP), `${JSON.stringify(stamped, null, 2)}\n`);
  return built;
}

/**
 * @param {string} folder
 * @param {string} inputs
 * @param {boolean} optimized
 * @returns {Built}
 */
function stamp(folder, inputs, optimized) {
  const wasm = readFileSync(path.join(folder, 'index_bg.wasm'));
  // Compressing what nobody uploads would take a second of each change.
  const gzipBytes = optimized ? gzipSync(wasm, { level: 9 }).length : 0;
  const built = { inputs, optimized, wasmBytes: wasm.length, gzipBytes };
  writeFileSync(path.join(folder, STAMP), `${JSON.stringify(built, null, 2)}\n`);
  return built;
}

/** @param {Built} built */
export function describe({ optimized, wasmBytes, gzipBytes, fresh }) {
  const kilobytes = (bytes) => `${Math.round(bytes / 1000)} KB`;
  const state = fresh ? 'is up to date' : 'is built';
  const kind = optimized ? `, ${kilobytes(gzipBytes)} gzip` : ', not optimised';
  return `  The worker ${state}: ${kilobytes(wasmBytes)} of wasm${kind}.`;
}

/**
 * What was built, when no input changed since.
 * @param {boolean} optimize
 * @returns {Built | undefined}
 */
export function upToDate(optimize) {
  const folder = optimize ? BUILD_DIR : DEV_BUILD_DIR;
  if (!OUTPUTS.every((name) => existsSync(path.join(folder, name)))) return undefined;
  let found;
  try {
    found = JSON.parse(readFileSync(path.join(folder, STAMP), 'utf8'));
  } catch {
    return undefined;
  }
  return found.inputs === hashInputs() ? { ...found, fresh: true } : undefined;
}

function hashInputs() {
  const hash = createHash('sha256');
  hash.update(bindTool());
  for (const name of ['RUSTFLAGS', 'RUSTUP_TOOLCHAIN']) hash.update(`${process.env[name] ?? ''}\0`);
  return addFiles(hash, INPUTS).digest('hex');
}

/** What the command line does. */
async function buildFromCommandLine() {
  if (parseCommandLine(process.argv.slice(2), USAGE).help) {
    console.log(USAGE);
    return;
  }
  if (process.env.HUB_BUILD === 'dev') return rebuildForDev();
  const [worker, webConsole] = await together(build, buildConsole);
  console.log(describe(worker));
  console.log(describeConsole(webConsole));
}

/** Builds each part on its own: `wrangler dev` continues with the last successful build of one that fails. */
async function rebuildForDev() {
  const parts = [build({ optimize: false }).then(describe), buildConsole().then(describeConsole)];
  for (const { value, reason } of await Promise.allSettled(parts)) {
    if (reason === undefined) console.log(value);
    else {
      // An exit code of 1 would make wrangler print the error again, inside an object of its own.
      printError(reason);
      console.error('\nThe hub keeps running the last successful build.');
    }
  }
}

if (isMain(import.meta.url)) await main(buildFromCommandLine);
