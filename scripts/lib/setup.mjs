// Set-up: installs what the commands need after a fresh clone. Each part has an `ensure` function, which installs the part if
// it is missing. Independent parts are installed in parallel.

import path from 'node:path';
import { ensureDevVars } from './dev-vars.mjs';
import { withLock } from './lock.mjs';
import { installNode, nodeIsReady, nodeTitle } from './node.mjs';
import { installPackages, packagesMatchLock } from './npm.mjs';
import { inProject, TOOLS_DIR } from './paths.mjs';
import { runStep } from './progress.mjs';
import { runParallel } from './run.mjs';
import { bindToolIsReady, installBindTool, installToolchain, toolchainIsReady, toolchainTitle } from './rust.mjs';

/** The folder of the locks for parts that are installed in the project. */
const PROJECT_LOCKS = inProject('.wrangler');

/**
 * @typedef {object} Part
 * @property {() => string} title
 * @property {(() => Promise<void>)[]} [after] the `ensure` functions of the parts on which this part depends
 * @property {() => boolean} isReady
 * @property {(update: (state: string) => void) => unknown} install
 * @property {string} [folder] the folder of the lock; by default the tools folder
 * @property {string} [note] printed before the installation
 */

/**
 * @param {string} name of the part's lock
 * @param {Part} part
 * @returns {() => Promise<void>} the part's `ensure` function; all calls share one installation
 */
function definePart(name, { title, folder = TOOLS_DIR, after = [], isReady, install, note }) {
  const prepare = async () => {
    await Promise.all(after.map((ensure) => ensure()));
    if (isReady()) return;
    await withLock(path.join(folder, `${name}.lock`), `installation of ${title()}`, async () => {
      // Another process may have installed the part while this process waited for the lock.
      if (!isReady()) await runStep(title(), async (update) => install(update), { note });
    });
  };
  let prepared;
  return () => (prepared ??= prepare());
}

export const ensurePackages = definePart('packages', {
  title: () => 'npm packages',
  folder: PROJECT_LOCKS,
  isReady: packagesMatchLock,
  install: installPackages,
});

/** The Node that runs wrangler and the tests. */
export const ensureNode = definePart('node', { title: () => nodeTitle, isReady: nodeIsReady, install: installNode });

export const ensureToolchain = definePart('toolchain', { title: toolchainTitle, isReady: toolchainIsReady, install: installToolchain });

/** The program that generates the JavaScript bindings of the wasm. */
export const ensureBindTool = definePart('bind', {
  title: () => 'wasm-bindgen',
  after: [ensureToolchain],
  isReady: bindToolIsReady,
  install: installBindTool,
  note: 'compiled once, about two minutes on two cores.',
});

/** Installs all missing parts. Prints nothing if no part is missing. */
export async function setup() {
  await runParallel(ensurePackages, ensureNode, ensureBindTool, ensureDevVars);
}
