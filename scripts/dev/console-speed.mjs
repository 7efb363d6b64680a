// `npm run console-speed`: measures the web console in Chromium, with a slow network and a slow processor.

import { build, describeBuild } from '../build/build.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { buildConsole, describeConsole } from '../build/console.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';

const USAGE = `Usage: npm run console-speed -- [options]

Measures the console in Chromium: the time until a view is usable on a phone with a slow 4G network and a processor that
is 4 times slower, the longest task while scrolling, the layout shift, and the heap with many messages
(tests/e2e/load/console.mjs). Run this command on an otherwise idle computer.

  --runs N      loads of each view, of which the median is shown (default 5)
  --messages N  messages of the session whose heap is measured (default 20000)
  --help        this text`;

await main(async () => {
  const { runs, messages } = parseCommandLine(process.argv.slice(2), USAGE, {
    runs: { type: 'string', default: '5' },
    messages: { type: 'string', default: '20000' },
  });
  for (const [name, value] of Object.entries({ runs, messages })) {
    if (!/^[1-9]\d{0,5}$/.test(value)) throw new UsageError(`--${name} must be a number from 1 to 999999, not ${value}.`, USAGE);
  }
  await setup();
  console.log(describeBuild(await build()));
  console.log(describeConsole(await buildConsole()));
  const file = inProject('tests', 'e2e', 'load', 'console.mjs');
  return runOnTerminal(nodeBinary(), [file, '--runs', runs, '--messages', messages], { env: LOCAL_COMMAND_ENV });
});
