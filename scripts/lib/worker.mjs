// The worker's build: cargo compiles the wasm, tools/bind makes its JavaScript bindings, esbuild bundles both with the
// module's entry (src/platform/entry.js), and for a release wasm-opt optimises what came out.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { UserError } from './errors.mjs';
import { inProject, ROOT } from './paths.mjs';
import { CARGO_PROGRESS, cargoProgress } from './progress.mjs';
import { run } from './run.mjs';
import { bindTool } from './rust.mjs';

const WASM = 'wasm32-unknown-unknown';

/** The crate's library, as cargo names its file. */
const LIBRARY = 'session_gateway_hub.wasm';

/** The cargo profiles of Cargo.toml: the first is small and fast, the second is quick to compile again. */
const PROFILES = { release: 'release', dev: 'dev-wasm' };

// What rustc's wasm32-unknown-unknown uses by itself, and the exceptions of wasm-bindgen's catch wrappers. Named one
// by one, so that a newer binaryen does not emit features that the runtime lacks.
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
 * Compiles the crate.
 * @param {boolean} optimize
 * @param {(state: string) => void} update
 * @returns {Promise<string>} the path of the wasm
 */
export async function compile(optimize, update) {
  const profile = optimize ? PROFILES.release : PROFILES.dev;
  const target = path.resolve(process.env.CARGO_TARGET_DIR ?? inProject('target'));
  await run('cargo', ['build', '--lib', '--locked', '--profile', profile, '--target', WASM, '--target-dir', target], {
    env: { ...CARGO_PROGRESS, CARGO_TERM_COLOR: process.stderr.isTTY ? 'always' : 'never' },
    onLine: cargoProgress(update),
  });
  return path.join(target, WASM, profile, LIBRARY);
}

/**
 * Makes `index.js` and `index_bg.wasm` of a compiled crate.
 * @param {string} wasm
 * @param {string} folder where they go
 * @param {boolean} optimize
 */
export async function bundle(wasm, folder, optimize) {
  const bound = path.join(folder, 'bound');
  rmSync(bound, { recursive: true, force: true });
  await run(bindTool(), [wasm, bound]);
  const bindings = path.join(bound, 'index.js');
  writeFileSync(bindings, forRuntime(readFileSync(bindings, 'utf8')));
  const made = path.join(bound, 'index_bg.wasm');
  if (optimize) await shrink(made);
  await bundleScript(bindings, path.join(bound, 'bundle.js'), optimize);
  // Moved last, so that a failed step keeps the previous build.
  renameSync(made, path.join(folder, 'index_bg.wasm'));
  renameSync(path.join(bound, 'bundle.js'), path.join(folder, 'index.js'));
  rmSync(bound, { recursive: true, force: true });
}

/**
 * The bindings as the runtime reads them: it imports a wasm module without the keyword `source`, and wrangler's bundler
 * warns of an object literal that repeats a key, as wasm-bindgen's does for each function of a snippet file.
 * @param {string} script
 */
export function forRuntime(script) {
  if (!script.includes('import source ')) {
    throw new UserError('The bindings of wasm-bindgen import their wasm module in another way than scripts/lib/worker.mjs expects.');
  }
  const named = new Set();
  return script.replace('import source ', 'import ').replace(/^\s*"(\.\/snippets\/[^"]+)": \w+,\n/gm, (entry, file) => {
    if (named.has(file)) return '';
    named.add(file);
    return entry;
  });
}

/**
 * @param {string} bindings
 * @param {string} outfile
 * @param {boolean} minify
 */
async function bundleScript(bindings, outfile, minify) {
  // Loaded late: the packages may be installed by this very process.
  const { default: esbuild } = await import(pathToFileURL(inProject('node_modules', 'esbuild', 'lib', 'main.js')).href);
  await esbuild.build({
    absWorkingDir: ROOT,
    entryPoints: [inProject('src', 'platform', 'entry.js')],
    alias: { 'hub-bindings': bindings },
    external: ['./index_bg.wasm', 'cloudflare:*'],
    bundle: true,
    format: 'esm',
    logLevel: 'warning',
    minify,
    outfile,
  });
}

/**
 * Optimises the wasm in place, and drops the names of its functions: a quarter of its size.
 * @param {string} wasm
 */
async function shrink(wasm) {
  const smaller = `${wasm}.smaller`;
  const features = WASM_FEATURES.map((name) => `--enable-${name}`);
  await run(process.execPath, [inProject('node_modules', 'binaryen', 'bin', 'wasm-opt'), wasm, '-o', smaller, '-O3', '--low-memory-unused', ...features]);
  renameSync(smaller, wasm);
}
