// `npm run bench`, `npm run load`, `npm run cost`: makes the optimised build and runs bench/run.mjs under a Node version that the runtime
// supports.

import { readOptions } from '../../bench/lib/options.mjs';
import { build, describeBuild } from '../build/build.mjs';
import { main } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';

await main(async () => {
  const args = process.argv.slice(2);
  // Parsed here so that invalid options fail before the build. bench/run.mjs parses the options again.
  const { compared } = readOptions(args);
  await setup();
  // Printed to standard error, because standard output has only the result, which may be JSON.
  if (!compared) console.error(describeBuild(await build()));
  return runOnTerminal(nodeBinary(), [inProject('bench', 'run.mjs'), ...args]);
});
