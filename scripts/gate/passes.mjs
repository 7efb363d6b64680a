// Remembers what has passed, outside of the clone: by a hash of its inputs, of the tools, and of the code that runs the checks.

import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { findBrowser } from './browser.mjs';
import { cacheFolder } from '../build/cache.mjs';
import { addFiles } from '../build/inputs.mjs';
import { CACHE_DIR, ROOT } from '../lib/paths.mjs';
import { outputOf } from '../lib/run.mjs';

/** The folder with an empty file for each pass. Its name is the key. A run has about 300 passes. */
const FOLDER = 'passed';
const MAX_PASSES = 10_000;

/** The inputs of every check: what decides how it runs and whether it passes, and the versions of the packages and of Node. */
const GATE = [
  'package.json',
  'package-lock.json',
  ...['gate', 'build/inputs.mjs', 'lib/run.mjs', 'lib/versions.mjs'].map((name) => `scripts/${name}`),
];

/** The variables that change what compilers and tests do. */
const VARIABLES = /^(CARGO_(BUILD|ENCODED|PROFILE|TARGET_\w+_)|FAST_CHECK_|NODE_OPTIONS$|PROPTEST_|RUST|SIM_|TZ$)/;

/** The versions of the tools that no lock file pins. @type {string | undefined} */
let tools;
/** @type {string | undefined} */
let browser;

/**
 * Returns the keys under which the passes of a check are remembered.
 * @param {Pick<import('./checks.mjs').ProjectCheck, 'title' | 'phase' | 'inputs' | 'files'>} check
 * @param {string[]} names of test files; the title of a check without test files
 * @param {string} [root] the folder of the inputs
 * @returns {Record<string, string>} by name
 */
export function keysOf({ title, phase, inputs, files }, names, root = ROOT) {
  tools ??= JSON.stringify([
    [process.version, process.platform, process.arch, outputOf('rustc', ['-vV']), outputOf('git', ['--version'])],
    Object.entries(process.env).filter(([name]) => VARIABLES.test(name)),
  ]);
  if (phase === 'browser') browser ??= outputOf(findBrowser() ?? 'chromium', ['--version']) ?? '';
  const shared = addFiles(
    createHash('sha256').update(JSON.stringify([title, tools, phase === 'browser' && browser])),
    [...GATE, ...inputs],
    root,
  ).digest('hex');
  const keyOf = (/** @type {string} */ name) => addFiles(createHash('sha256').update(`${shared} ${name}`), files ? [name] : [], root);
  return Object.fromEntries(names.map((name) => [name, keyOf(name).digest('hex')]));
}

/** @param {string} key */
export const hasPassed = (key) => existsSync(path.join(CACHE_DIR, FOLDER, key));

/** Remembers passes, and forgets the oldest ones. @param {string[]} keys */
export function recordPassed(keys) {
  const folder = cacheFolder(FOLDER, MAX_PASSES);
  for (const key of keys) writeFileSync(path.join(folder, key), '');
}
