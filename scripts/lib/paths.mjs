// Absolute paths of the project's files.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The project's root directory, without a trailing slash. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');

/** @param {...string} parts of a path relative to the project's root */
export const inProject = (...parts) => path.join(ROOT, ...parts);

/**
 * The folder of tools that are no npm dependencies: the programs in Rust and a newer Node. `HUB_TOOLS_DIR` is outside of the
 * project, so that clones can share it.
 */
export const TOOLS_DIR = process.env.HUB_TOOLS_DIR ? path.resolve(process.env.HUB_TOOLS_DIR) : inProject('.tools');

/** The optimised build of the worker (`index.js`, `index_bg.wasm`), which is deployed and tested. */
export const BUILD_DIR = inProject('build');

/** The development build of the worker, which `npm run dev` runs. */
export const DEV_BUILD_DIR = inProject('build', 'dev');

/** The development build of the previous commit, for the test of version skew. */
export const PREVIOUS_BUILD_DIR = inProject('build', 'previous');

/** The local D1 database and Durable Objects of `wrangler dev`. */
export const LOCAL_STATE_DIR = inProject('.wrangler', 'state');

/** The secrets of the local hub, read by `wrangler dev`. */
export const DEV_VARS = inProject('.dev.vars');

/** @param {string} name of a program, without suffix */
export const exe = (name) => (process.platform === 'win32' ? `${name}.exe` : name);
