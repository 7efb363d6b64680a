// Prepares the tools and the builds that a command needs. In the npm package, there is nothing to do: it contains the builds, and npm has
// installed its dependencies.

import { IS_PACKAGE } from '../lib/paths.mjs';

/** Installs the npm packages and a Node for wrangler, if they are missing. */
export async function prepareTools() {
  if (IS_PACKAGE) return;
  const { ensureNode, ensurePackages } = await import('./setup.mjs');
  await Promise.all([ensurePackages(), ensureNode()]);
}

/** Builds the optimised worker and the web console, if an input changed. */
export async function prepareBuild() {
  if (IS_PACKAGE) return;
  const [{ build }, { buildConsole }, { runParallel }] = await Promise.all([
    import('./build.mjs'),
    import('./console.mjs'),
    import('../lib/run.mjs'),
  ]);
  await runParallel(build, buildConsole, prepareTools);
}
