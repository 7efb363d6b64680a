// Where things are. Every path is absolute, so scripts work from any directory.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The project's root directory. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');

/** @param {...string} parts path below the project's root */
export const inProject = (...parts) => path.join(ROOT, ...parts);

/**
 * Where set-up installs what is no npm package: the host programs in Rust and, for an old Node, a newer one.
 * `HUB_TOOLS_DIR` moves it out of the project, so that a CI machine keeps it from clone to clone.
 */
export const TOOLS_DIR = process.env.HUB_TOOLS_DIR
  ? path.resolve(process.env.HUB_TOOLS_DIR)
  : inProject('.tools');

/** The optimised build of the worker, which is deployed and tested: `index.js`, `index_bg.wasm`. */
export const BUILD_DIR = inProject('build');

/** The development build of the worker, which `npm run dev` runs. */
export const DEV_BUILD_DIR = inProject('build', 'dev');

/** Where `wrangler dev` keeps its local D1 database and Durable Objects. */
export const LOCAL_STATE_DIR = inProject('.wrangler', 'state');

/** The secrets of the local hub, read by `wrangler dev`. */
export const DEV_VARS = inProject('.dev.vars');

/** @param {string} name a program's name without suffix */
export const exe = (name) => (process.platform === 'win32' ? `${name}.exe` : name);
