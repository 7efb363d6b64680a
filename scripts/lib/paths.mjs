// Absolute paths of the code (the repository, or the installed npm package) and of the local hub's data.

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root directory of the repository or of the npm package, without a trailing slash. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');

/** @param {...string} parts of a path relative to the project's root */
export const inProject = (...parts) => path.join(ROOT, ...parts);

/** Whether this code runs from the npm package, which has the builds but not their sources. */
export const IS_PACKAGE = !existsSync(inProject('Cargo.toml'));

/**
 * The folder of everything that a local hub stores. A hub from the npm package stores its data in `HUB_DATA_DIR`, by default a folder
 * in the user's home, because the folder of the package may be read-only, and npx deletes that folder.
 */
export const DATA_DIR = IS_PACKAGE ? path.resolve(process.env.HUB_DATA_DIR || path.join(homedir(), '.session-gateway-hub')) : ROOT;

/** @param {...string} parts of a path relative to the data folder */
export const inData = (...parts) => path.join(DATA_DIR, ...parts);

/**
 * The folder of tools that are no npm dependencies: the programs in Rust and a newer Node. `HUB_TOOLS_DIR` is outside of the
 * project, so that clones can share it.
 */
export const TOOLS_DIR = process.env.HUB_TOOLS_DIR ? path.resolve(process.env.HUB_TOOLS_DIR) : inProject('.tools');

/** The folder outside of the project for what all clones share: the agents of the tests, and how long the test files took. */
export const CACHE_DIR = path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'session-gateway-hub');

/** The optimised build of the worker (`index.js`, `index_bg.wasm`), which is deployed and tested. */
export const BUILD_DIR = inProject('build');

/** The development build of the worker, which `npm run dev` runs. */
export const DEV_BUILD_DIR = inProject('build', 'dev');

/** The development build of the previous commit, for the test of version skew. */
export const PREVIOUS_BUILD_DIR = inProject('build', 'previous');

/** The local D1 database and Durable Objects of `wrangler dev`. `HUB_STATE_DIR` selects another state, such as a copy of a deployed hub. */
export const LOCAL_STATE_DIR = process.env.HUB_STATE_DIR ? path.resolve(process.env.HUB_STATE_DIR) : inData('.wrangler', 'state');

/** The secrets and the settings of the local hub, read by `wrangler dev`. */
export const DEV_VARS = inData('.dev.vars');

/** The settings of the deployments. */
export const DEPLOYMENTS = inData('deployment.json');

/** The folder of the generated files of a deployment. @param {string} env */
export const deploymentFolder = (env) => inData('.wrangler', 'deployment', env);

/** @param {string} name of a program, without suffix */
export const exe = (name) => (process.platform === 'win32' ? `${name}.exe` : name);
