// The builds of the worker: the optimised build in build/, and the development build in build/dev/. Skips a build that is up to date.

import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { addFiles } from './inputs.mjs';
import { withLock } from '../lib/lock.mjs';
import { BUILD_DIR, DEV_BUILD_DIR } from '../lib/paths.mjs';
import { runStep } from '../lib/progress.mjs';
import { runParallel } from '../lib/run.mjs';
import { bindToolPath } from './rust.mjs';
import { ensureBindTool, ensurePackages, ensureToolchain } from './setup.mjs';
import { bundle, compile } from './worker.mjs';

/** The inputs of the compiler. */
export const CRATE_INPUTS = ['src', '.cargo', 'Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml'];
const INPUTS = [...CRATE_INPUTS, 'package-lock.json', 'scripts/build/worker.mjs'];

/** The files of a build. The script is copied last: wrangler reloads when the script changes, and then needs the new wasm. */
const OUTPUTS = ['index_bg.wasm', 'index.js'];
const STAMP = 'stamp.json';

/**
 * @typedef {object} BuildRecord
 * @property {string} inputs hash over the inputs
 * @property {boolean} optimized
 * @property {number} wasmBytes
 * @property {number} gzipBytes size of the compressed wasm; 0 for a development build
 * @property {boolean} [isUpToDate] set when the build was skipped
 */

/**
 * Builds if an input changed. For a development build, copies an optimised build that is up to date.
 * @param {{optimize?: boolean}} [options]
 * @returns {Promise<BuildRecord>}
 */
export async function build({ optimize = true } = {}) {
  const existing = findUpToDateBuild(optimize);
  if (existing) return existing;
  const folder = optimize ? BUILD_DIR : DEV_BUILD_DIR;
  return withLock(path.join(folder, '.lock'), 'build', async () => {
    // Another process may have built while this process waited for the lock.
    const builtMeanwhile = findUpToDateBuild(optimize);
    if (builtMeanwhile) return builtMeanwhile;
    mkdirSync(folder, { recursive: true });
    const optimized = optimize ? undefined : findUpToDateBuild(true);
    if (optimized) return copyOptimized(optimized);
    const [{ inputs, wasm }] = await runParallel(() => compileWorker(optimize), ensureBindTool, ensurePackages);
    rmSync(path.join(folder, STAMP), { force: true });
    await runStep(optimize ? 'wasm bindings and optimiser' : 'wasm bindings', () => bundle(wasm, folder, optimize));
    return writeStamp(folder, inputs, optimize);
  });
}

/** Builds the worker without metrics and without log lines of requests, for `npm run bench -- --compare`. Returns its folder. */
export async function buildUnobserved() {
  const folder = path.join(BUILD_DIR, 'unobserved');
  mkdirSync(folder, { recursive: true });
  await runParallel(ensureToolchain, ensureBindTool, ensurePackages);
  const wasm = await runStep('wasm build', (update) => compile(true, update, { isObserved: false }));
  await runStep('wasm bindings and optimiser', () => bundle(wasm, folder, true, { isObserved: false }));
  return folder;
}

/** @param {boolean} optimize */
async function compileWorker(optimize) {
  await ensureToolchain();
  // Hashed before the compiler runs, so that an edit during the build makes the next run build again.
  const inputs = hashInputs();
  return { inputs, wasm: await runStep('wasm build', (update) => compile(optimize, update)) };
}

/**
 * Copies the optimised build to the folder of the development build.
 * @param {BuildRecord} built
 */
function copyOptimized(built) {
  rmSync(path.join(DEV_BUILD_DIR, STAMP), { force: true });
  for (const name of OUTPUTS) cpSync(path.join(BUILD_DIR, name), path.join(DEV_BUILD_DIR, name));
  const { isUpToDate: _, ...stamped } = built;
  writeFileSync(path.join(DEV_BUILD_DIR, STAMP), `${JSON.stringify(stamped, null, 2)}\n`);
  return built;
}

/**
 * @param {string} folder
 * @param {string} inputs
 * @param {boolean} optimized
 * @returns {BuildRecord}
 */
function writeStamp(folder, inputs, optimized) {
  const wasm = readFileSync(path.join(folder, 'index_bg.wasm'));
  // Compressing takes a second, and a development build is never uploaded.
  const gzipBytes = optimized ? gzipSync(wasm, { level: 9 }).length : 0;
  const built = { inputs, optimized, wasmBytes: wasm.length, gzipBytes };
  writeFileSync(path.join(folder, STAMP), `${JSON.stringify(built, null, 2)}\n`);
  return built;
}

/** @param {BuildRecord} built */
export function describeBuild({ optimized, wasmBytes, gzipBytes, isUpToDate }) {
  const kilobytes = (bytes) => `${Math.round(bytes / 1000)} KB`;
  const state = isUpToDate ? 'is up to date' : 'is built';
  const kind = optimized ? `, ${kilobytes(gzipBytes)} gzip` : ', not optimised';
  return `  The worker ${state}: ${kilobytes(wasmBytes)} of wasm${kind}.`;
}

/**
 * Returns the existing build if no input has changed since the build.
 * @param {boolean} optimize
 * @returns {BuildRecord | undefined}
 */
export function findUpToDateBuild(optimize) {
  const folder = optimize ? BUILD_DIR : DEV_BUILD_DIR;
  if (!OUTPUTS.every((name) => existsSync(path.join(folder, name)))) return undefined;
  let record;
  try {
    record = JSON.parse(readFileSync(path.join(folder, STAMP), 'utf8'));
  } catch {
    return undefined;
  }
  return record.inputs === hashInputs() ? { ...record, isUpToDate: true } : undefined;
}

function hashInputs() {
  const hash = createHash('sha256');
  hash.update(bindToolPath());
  for (const name of ['RUSTFLAGS', 'RUSTUP_TOOLCHAIN']) hash.update(`${process.env[name] ?? ''}\0`);
  return addFiles(hash, INPUTS).digest('hex');
}
