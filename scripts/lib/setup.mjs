// Set-up: everything between a fresh clone and a build. Each part is installed once, when something first needs it and it is
// missing; parts that do not depend on each other are installed side by side.

import path from 'node:path';
import { createDevVars, devVarsExist } from './dev-vars.mjs';
import { withLock } from './lock.mjs';
import { installNode, nodeIsReady, nodeTitle } from './node.mjs';
import { installPackages, packagesMatchLock } from './npm.mjs';
import { inProject, TOOLS_DIR } from './paths.mjs';
import { step } from './progress.mjs';
import { together } from './run.mjs';
import { bindToolIsReady, installBindTool, installToolchain, toolchainIsReady, toolchainTitle } from './rust.mjs';

/** The locks of what is installed into the project itself. */
const PROJECT_LOCKS = inProject('.wrangler');

/**
 * @typedef {object} Part
 * @property {() => string} title
 * @property {(() => Promise<void>)[]} [after] the parts that must be installed before this one
 * @property {() => boolean} isReady quick, and asked again before `install`
 * @property {(update: (state: string) => void) => unknown} install
 * @property {string} [folder] of its lock; the tools' own by default
 * @property {string} [note] said before it starts
 */

/**
 * @param {string} name of its lock
 * @param {Part} part
 * @returns {() => Promise<void>} installs the part unless it is ready; called again, it waits for the same work
 */
function part(name, { title, folder = TOOLS_DIR, after = [], isReady, install, note }) {
  const prepare = async () => {
    await Promise.all(after.map((need) => need()));
    if (isReady()) return;
    await withLock(path.join(folder, `${name}.lock`), `set-up (${title()})`, async () => {
      if (!isReady()) await step(title(), async (update) => install(update), { note });
    });
  };
  let prepared;
  return () => (prepared ??= prepare());
}

export const needPackages = part('packages', {
  title: () => 'npm packages',
  folder: PROJECT_LOCKS,
  isReady: packagesMatchLock,
  install: installPackages,
});

/** The Node that runs wrangler and the tests. */
export const needNode = part('node', { title: () => nodeTitle, isReady: nodeIsReady, install: installNode });

export const needToolchain = part('toolchain', { title: toolchainTitle, isReady: toolchainIsReady, install: installToolchain });

/** The program that makes the JavaScript bindings of the wasm. */
export const needBindTool = part('bind', {
  title: () => 'wasm-bindgen',
  after: [needToolchain],
  isReady: bindToolIsReady,
  install: installBindTool,
  note: 'is compiled once, which takes about two minutes on two cores.',
});

export const needDevVars = part('dev-vars', {
  title: () => '.dev.vars with a random access token',
  folder: PROJECT_LOCKS,
  isReady: devVarsExist,
  install: createDevVars,
});

/** Installs whatever is missing and says so; silent when nothing is. */
export async function setup() {
  await together(needPackages, needNode, needBindTool, needDevVars);
}
