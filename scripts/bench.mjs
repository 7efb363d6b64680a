// `npm run bench`, `npm run load`, `npm run idle`, `npm run cost`: makes the optimised build and runs bench/run.mjs under a Node version that
// the runtime supports.

import { readOptions } from '../bench/lib/options.mjs';
import { build, describeBuild } from './lib/build.mjs';
import { main } from './lib/errors.mjs';
import { nodeBinary } from './lib/node.mjs';
import { inProject } from './lib/paths.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';

await main(async () => {
  const args = process.argv.slice(2);
  // bench/run.mjs parses them again. Here, invalid options fail before the build.
  const { help, usage, compared } = readOptions(args);
  if (help) {
    console.log(usage);
    return 0;
  }
  await setup();
  // Printed on standard error: standard output has only the result, which may be JSON.
  if (!compared) console.error(describeBuild(await build()));
  return runOnTerminal(nodeBinary(), [inProject('bench', 'run.mjs'), ...args]);
});
