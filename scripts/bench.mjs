// `npm run bench -- ARGS`: sets up, makes the optimised build, and runs the load generator under a Node that the
// runtime accepts.

import { readOptions, USAGE } from '../bench/lib/options.mjs';
import { build, describe } from './build.mjs';
import { main } from './lib/errors.mjs';
import { nodeBinary } from './lib/node.mjs';
import { inProject } from './lib/paths.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';

await main(async () => {
  const args = process.argv.slice(2);
  // A mistake is told before minutes of building, not after them.
  if (readOptions(args).help) {
    console.log(USAGE);
    return 0;
  }
  await setup();
  // Standard output is the bench's own: it may be asked for JSON.
  console.error(describe(await build()));
  return runOnTerminal(nodeBinary(), [inProject('bench', 'run.mjs'), ...args]);
});
