// Set-up: installs what the commands need after a fresh clone. Each tool has an `ensure` function, which installs the tool if
// it is missing. Independent tools are installed in parallel.

import path from 'node:path';
import { ensureDevVars } from '../lib/dev-vars.mjs';
import { withLock } from '../lib/lock.mjs';
import { installNode, nodeIsReady, nodeTitle } from '../lib/node.mjs';
import { installPackages, packagesMatchLockfile } from '../lib/npm.mjs';
import { inProject, TOOLS_DIR } from '../lib/paths.mjs';
import { runStep } from '../lib/progress.mjs';
import { runParallel } from '../lib/run.mjs';
import { bindToolIsReady, installBindTool, installToolchain, toolchainIsReady, toolchainTitle } from './rust.mjs';

/** The folder of the locks for tools that are installed in the project. */
const PROJECT_LOCKS = inProject('.wrangler');

/**
 * @typedef {object} Tool
 * @property {() => string} title
 * @property {(() => Promise<void>)[]} [after] the `ensure` functions of the tools on which this tool depends
 * @property {() => boolean} isReady
 * @property {(update: (state: string) => void) => unknown} install
 * @property {string} [folder] the folder of the lock; by default the tools folder
 * @property {string} [note] printed before the installation
 */

/**
 * @param {string} name of the tool's lock
 * @param {Tool} tool
 * @returns {() => Promise<void>} the tool's `ensure` function; all calls share one installation
 */
function defineTool(name, { title, folder = TOOLS_DIR, after = [], isReady, install, note }) {
  const installIfMissing = async () => {
    await Promise.all(after.map((ensure) => ensure()));
    if (isReady()) return;
    await withLock(path.join(folder, `${name}.lock`), `installation of ${title()}`, async () => {
      // Another process may have installed the tool while this process waited for the lock.
      if (!isReady()) await runStep(title(), async (update) => install(update), { note });
    });
  };
  let installation;
  return () => (installation ??= installIfMissing());
}

export const ensurePackages = defineTool('packages', {
  title: () => 'npm packages',
  folder: PROJECT_LOCKS,
  isReady: packagesMatchLockfile,
  install: installPackages,
});

/** The Node that runs wrangler and the tests. */
export const ensureNode = defineTool('node', { title: () => nodeTitle, isReady: nodeIsReady, install: installNode });

export const ensureToolchain = defineTool('toolchain', { title: toolchainTitle, isReady: toolchainIsReady, install: installToolchain });

/** The program that generates the JavaScript bindings of the wasm. */
export const ensureBindTool = defineTool('bind', {
  title: () => 'wasm-bindgen',
  after: [ensureToolchain],
  isReady: bindToolIsReady,
  install: installBindTool,
  note: 'compiled once, about two minutes on two cores.',
});

/** Installs all missing tools. Prints nothing if no tool is missing. */
export async function setup() {
  await runParallel(ensurePackages, ensureNode, ensureBindTool, ensureDevVars);
}
