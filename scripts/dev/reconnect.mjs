// `npm run reconnect`: restarts a hub with 1,000 CLIs, then stalls its database, and measures the time until the hub serves all CLIs again.

import { build, describeBuild } from '../build/build.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';

const USAGE = `Usage: npm run reconnect

Connects 1,000 CLIs to one namespace, restarts the hub, and fails if the hub does not serve all CLIs again within 10 s. Then
stalls the database for 90 s, and fails if a CLI connects again more than three times meanwhile
(tests/e2e/load/reconnect.test.mjs). Run this command on an otherwise idle computer.

  --help        this text`;

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await setup();
  console.log(describeBuild(await build()));
  const file = inProject('tests', 'e2e', 'load', 'reconnect.test.mjs');
  return runOnTerminal(nodeBinary(), ['--test', '--test-reporter=spec', file], { env: LOCAL_COMMAND_ENV });
});
