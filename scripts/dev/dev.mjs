// `npm run dev`: installs missing tools, builds, and runs the hub on this computer until Ctrl-C. Builds again after a change.

import path from 'node:path';
import { build, describeBuild } from '../build/build.mjs';
import { buildConsole, describeConsole } from '../build/console.mjs';
import { main } from '../lib/errors.mjs';
import { HUB_OPTIONS_HELP, readHubOptions } from '../product/hub/options.mjs';
import { runHub } from '../product/hub/run.mjs';
import { DEV_BUILD_DIR } from '../lib/paths.mjs';
import { runParallel } from '../lib/run.mjs';
import { ensureNode, ensurePackages } from '../build/setup.mjs';
import { migrateLocalDatabases } from '../product/hub/wrangler.mjs';

const USAGE = `Usage: npm run dev -- [options]

${HUB_OPTIONS_HELP}`;

async function prepare() {
  const [worker, webConsole] = await runParallel(
    () => build({ optimize: false }),
    buildConsole,
    migrateLocalDatabases,
    ensurePackages,
    ensureNode,
  );
  console.log(describeBuild(worker));
  console.log(describeConsole(webConsole));
}

await main(async () => {
  const options = readHubOptions(process.argv.slice(2), USAGE);
  return runHub(options, { args: [path.join(DEV_BUILD_DIR, 'index.js')], prepare });
});
