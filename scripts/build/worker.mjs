// The build of the worker:
// 1. cargo compiles the wasm.
// 2. tools/bind generates the JavaScript bindings.
// 3. wasm-opt optimises the wasm of a release build.
// 4. esbuild bundles the bindings with the entry module (src/platform/entry.js).

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { UserError } from '../lib/errors.mjs';
import { inProject, ROOT } from '../lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress } from '../lib/progress.mjs';
import { run } from '../lib/run.mjs';
import { bindToolPath } from './rust.mjs';

const WASM = 'wasm32-unknown-unknown';

/** The file name of the compiled crate. */
const WASM_FILE = 'session_gateway_hub.wasm';

/** Profiles of Cargo.toml: the release is small and fast, the development build compiles quickly. */
const PROFILES = { release: 'release', dev: 'dev-wasm' };

/**
 * The features that rustc uses for wasm32-unknown-unknown, and exceptions, which wasm-bindgen uses. With an explicit list, a newer binaryen
 * does not use features that the runtime does not support.
 */
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
 * Changes the hashes in function names, whose order decides whether LLVM inlines the function that frees a string. Without this inlining, the
 * wasm is 24 KB larger (gzip). If a small change makes the wasm that much larger, try another letter.
 */
const SYMBOL_SALT = 'b';

/** Cargo's folder for compiled crates. */
export const CARGO_TARGET_DIR = path.resolve(process.env.CARGO_TARGET_DIR ?? inProject('target'));

/**
 * Compiles the crate.
 * @param {boolean} optimize
 * @param {(state: string) => void} update
 * @param {{root?: string, target?: string, isObserved?: boolean}} [options] the folders of the sources and of the compiled crates; and false
 *   for a build that counts nothing
 * @returns {Promise<string>} the path of the wasm
 */
export async function compile(optimize, update, { root = ROOT, target = CARGO_TARGET_DIR, isObserved = true } = {}) {
  const profile = optimize ? PROFILES.release : PROFILES.dev;
  const features = isObserved ? [] : ['--features', 'unobserved'];
  const options = ['--lib', '--locked', '--profile', profile, '--target', WASM, '--target-dir', target, ...features];
  deleteWasmOfOtherClone(path.join(target, WASM, profile), root);
  const args = optimize ? ['rustc', '--config', withoutLocalPaths(), ...options, '--', `-Cmetadata=${SYMBOL_SALT}`] : ['build', ...options];
  await run('cargo', args, {
    cwd: root,
    env: { ...CARGO_PROGRESS, CARGO_TERM_COLOR: process.stderr.isTTY ? 'always' : 'never' },
    onLine: cargoProgress(update),
  });
  return path.join(target, WASM, profile, WASM_FILE);
}

/**
 * Makes cargo compile again if the folder has the wasm of another clone. The file of a cdylib has the same name for all clones, and cargo
 * takes it as its own if the sources of this clone have not changed since this clone was compiled.
 * @param {string} folder of the compiled crates
 * @param {string} root of the sources
 */
export function deleteWasmOfOtherClone(folder, root) {
  const origin = path.join(folder, 'compiled-from');
  if (existsSync(origin) && readFileSync(origin, 'utf8') === root) return;
  rmSync(path.join(folder, 'deps', WASM_FILE), { force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(origin, root);
}

/**
 * Returns a setting of cargo that replaces the folders of this computer's crates in the messages of panics, so that the wasm does
 * not contain paths of the computer that built it. Cargo adds it to the flags of .cargo/config.toml.
 */
function withoutLocalPaths() {
  const crates = path.join(process.env.CARGO_HOME ?? path.join(homedir(), '.cargo'), 'registry', 'src');
  const registries = existsSync(crates) ? readdirSync(crates).map((name) => path.join(crates, name)) : [];
  // rustc uses the last prefix that matches.
  const flags = [crates, ...registries].map((folder) => `--remap-path-prefix=${folder}=crates`);
  return `target.${WASM}.rustflags=${JSON.stringify(flags)}`;
}

/**
 * Creates `index.js` and `index_bg.wasm` from a compiled crate.
 * @param {string} wasm
 * @param {string} folder for the two files
 * @param {boolean} optimize
 * @param {{root?: string, isObserved?: boolean}} [options] as for `compile`
 */
export async function bundle(wasm, folder, optimize, { root = ROOT, isObserved = true } = {}) {
  const bindingsFolder = path.join(folder, 'bindings');
  rmSync(bindingsFolder, { recursive: true, force: true });
  await run(bindToolPath(root), [wasm, bindingsFolder]);
  const bindings = path.join(bindingsFolder, 'index.js');
  writeFileSync(bindings, adaptBindings(readFileSync(bindings, 'utf8')));
  const wasmWithBindings = path.join(bindingsFolder, 'index_bg.wasm');
  if (optimize) await optimizeWasm(wasmWithBindings);
  await bundleScript(root, bindings, path.join(bindingsFolder, 'bundle.js'), optimize, isObserved);
  // Moved last, so that a failed step keeps the previous build.
  renameSync(wasmWithBindings, path.join(folder, 'index_bg.wasm'));
  renameSync(path.join(bindingsFolder, 'bundle.js'), path.join(folder, 'index.js'));
  rmSync(bindingsFolder, { recursive: true, force: true });
}

/**
 * Adapts the bindings:
 * - Removes the keyword `source`, because the runtime imports a wasm module without this keyword.
 * - Removes repeated keys. For each function of a snippet file, wasm-bindgen repeats a key in an object literal, and wrangler's bundler warns.
 * @param {string} script
 */
export function adaptBindings(script) {
  if (!script.includes('import source ')) {
    throw new UserError('The bindings have no `import source`. Adapt `adaptBindings` in scripts/build/worker.mjs to this wasm-bindgen.');
  }
  const files = new Set();
  return script.replace('import source ', 'import ').replace(/^\s*"(\.\/snippets\/[^"]+)": \w+,\n/gm, (entry, file) => {
    if (files.has(file)) return '';
    files.add(file);
    return entry;
  });
}

/**
 * @param {string} root
 * @param {string} bindings
 * @param {string} outfile
 * @param {boolean} minify
 * @param {boolean} isObserved
 */
async function bundleScript(root, bindings, outfile, minify, isObserved) {
  // Imported dynamically, because the package may not have been installed when this process started.
  const { default: esbuild } = await import(pathToFileURL(inProject('node_modules', 'esbuild', 'lib', 'main.js')).href);
  // The bindings import copies of the project's JavaScript files, and the entry module imports the originals. Both must share the state of
  // these modules, so each copy is replaced by its original.
  const oneCopyOfEachModule = {
    name: 'one copy of each module',
    setup: ({ onResolve }) =>
      onResolve({ filter: /\.js$/ }, ({ path: imported, resolveDir }) => {
        if (!isObserved && path.basename(imported) === 'requests.js') return { path: inProject('bench', 'lib', 'unobserved.js') };
        const [, file] = /[\\/]snippets[\\/][^\\/]+[\\/](src[\\/].+\.js)$/.exec(path.resolve(resolveDir, imported)) ?? [];
        return file === undefined ? undefined : { path: path.join(root, file) };
      }),
  };
  await esbuild.build({
    absWorkingDir: root,
    entryPoints: [path.join(root, 'src', 'platform', 'entry.js')],
    alias: { 'hub-bindings': bindings },
    plugins: [oneCopyOfEachModule],
    external: ['./index_bg.wasm', 'cloudflare:*'],
    bundle: true,
    format: 'esm',
    logLevel: 'warning',
    minify,
    outfile,
  });
}

/**
 * Optimises a wasm file in place. Also removes the names of the functions, a quarter of the size.
 * @param {string} wasm
 */
async function optimizeWasm(wasm) {
  const optimized = `${wasm}.optimized`;
  const features = WASM_FEATURES.map((name) => `--enable-${name}`);
  await run(process.execPath, [
    inProject('node_modules', 'binaryen', 'bin', 'wasm-opt'),
    wasm,
    '-o',
    optimized,
    '-O3',
    '--low-memory-unused',
    ...features,
  ]);
  renameSync(optimized, wasm);
}
