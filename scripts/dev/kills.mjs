// `npm run kills`: kills the runtime repeatedly under load, and checks that no acknowledged data is lost.

import { randomInt } from 'node:crypto';
import { build, describeBuild } from '../build/build.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';

const USAGE = `Usage: npm run kills -- [options]

Kills the local runtime with SIGKILL at random times under load, restarts it, and checks that no acknowledged data is
lost (tests/e2e/crash.test.mjs). The seed determines the times of the kills, but not the requests in flight at these times.

  --kills N     number of kills (default 50, at most 10000)
  --seed TEXT   seed of an earlier run (default: a new one, which is printed)
  --help        this text`;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  await setup();
  console.log(describeBuild(await build()));
  console.log(`${options.kills} kills, seed ${options.seed}`);
  const env = { ...LOCAL_COMMAND_ENV, CRASH_KILLS: String(options.kills), CRASH_SEED: options.seed };
  return runOnTerminal(nodeBinary(), ['--test', '--test-reporter=spec', inProject('tests', 'e2e', 'crash.test.mjs')], { env });
});

/** @param {string[]} args */
function parseOptions(args) {
  const { kills, seed } = parseCommandLine(args, USAGE, {
    kills: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(randomInt(2 ** 32)) },
  });
  if (!/^[1-9]\d{0,3}$|^10000$/.test(kills)) throw new UsageError(`--kills must be a number from 1 to 10000, not ${kills}.`, USAGE);
  if (seed === '') throw new UsageError('--seed must not be empty.', USAGE);
  return { kills: Number(kills), seed };
}
