// Set-up: everything between a fresh clone and a build. Each step is skipped when there is nothing to do.

import path from 'node:path';
import { createDevVars, devVarsExist } from './dev-vars.mjs';
import { withLock } from './lock.mjs';
import { installNode, nodeIsReady, nodeTitle } from './node.mjs';
import { installPackages, packagesMatchLock } from './npm.mjs';
import { inProject, TOOLS_DIR } from './paths.mjs';
import { step } from './progress.mjs';
import { findCargoTool, installCargoTool, installToolchain, removeToolsTarget, toolchainIsReady, toolchainTitle } from './rust.mjs';
import { cargoTools } from './versions.mjs';

/**
 * @typedef {object} Step
 * @property {string} title
 * @property {() => boolean} isDone quick, and asked again before `run`
 * @property {(update: (state: string) => void) => unknown} run
 * @property {string} [note] said before it starts
 * @property {() => void} [cleanUp]
 */

/** @returns {Step[]} */
function steps() {
  const tools = cargoTools().map((tool) => ({
    title: `${tool.crate} ${tool.version}`,
    isDone: () => findCargoTool(tool) !== undefined,
    run: (update) => installCargoTool(tool, update),
    note: `is compiled once, which takes about ${tool.about} on two cores.`,
    cleanUp: removeToolsTarget,
  }));
  return [
    { title: 'npm packages', isDone: packagesMatchLock, run: installPackages },
    { title: nodeTitle, isDone: nodeIsReady, run: installNode },
    { title: toolchainTitle(), isDone: toolchainIsReady, run: installToolchain },
    ...tools,
    { title: '.dev.vars with a random access token', isDone: devVarsExist, run: createDevVars },
  ];
}

/** Does what is missing and says so; silent when nothing is. */
export async function setup() {
  const all = steps();
  if (all.every(({ isDone }) => isDone())) return;
  await withLock(path.join(TOOLS_DIR, 'setup.lock'), 'set-up', async () => {
    const cleanUps = new Set();
    for (const { title, isDone, run, note, cleanUp } of all) {
      if (isDone()) continue;
      await step(title, async (update) => run(update), { note });
      if (cleanUp) cleanUps.add(cleanUp);
    }
    cleanUps.forEach((cleanUp) => cleanUp());
  });
}

/** The build needs these two programs by path. */
export function buildTools() {
  const [workerBuild, wasmBindgen] = cargoTools().map(findCargoTool);
  return { workerBuild, wasmBindgen, wasmOpt: inProject('node_modules', 'binaryen', 'bin', 'wasm-opt') };
}
