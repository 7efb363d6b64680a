// `npm run build`: compiles the crate to wasm and bundles it into build/, and builds the web console into web/dist/. Skips
// a part that is up to date.
//
// HUB_BUILD=dev makes the development build in build/dev/, which is not optimised and compiles in seconds.
// `wrangler deploy` and `wrangler dev` run this script too ([build] in wrangler.toml).

import { build, buildUnobserved, describeBuild } from '../build/build.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { buildConsole, describeConsole } from '../build/console.mjs';
import { main, printError } from '../lib/errors.mjs';
import { runParallel } from '../lib/run.mjs';

const USAGE = `Usage: npm run build

Compiles the hub to wasm and bundles it into build/, and builds the web console into web/dist/. First installs the tools
that are missing. Skips what is up to date.

  --help  this text

HUB_BUILD=dev makes the build of \`npm run dev\`, in build/dev/: compiles faster, but is larger and slower. HUB_BUILD=unobserved
makes a build of the worker without metrics and log lines of requests in build/unobserved/, to measure what these cost.`;

async function buildFromCommandLine() {
  parseCommandLine(process.argv.slice(2), USAGE);
  if (process.env.HUB_BUILD === 'dev') return rebuildForDev();
  if (process.env.HUB_BUILD === 'unobserved') {
    console.log(await buildUnobserved());
    return;
  }
  const [worker, webConsole] = await runParallel(build, buildConsole);
  console.log(describeBuild(worker));
  console.log(describeConsole(webConsole));
}

/** Builds both parts independently: if one fails, `wrangler dev` continues with its last successful build. */
async function rebuildForDev() {
  const parts = [build({ optimize: false }).then(describeBuild), buildConsole().then(describeConsole)];
  for (const part of await Promise.allSettled(parts)) {
    if (part.status === 'fulfilled') console.log(part.value);
    else {
      // With an exit code other than 0, wrangler would print the error a second time.
      printError(part.reason);
      console.error('\nThe hub continues with the last successful build.');
    }
  }
}

await main(buildFromCommandLine);
