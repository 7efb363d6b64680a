// `npm run kills -- ARGS`: sets up, builds, and kills the runtime under load again and again; nothing may be lost.

import { randomInt } from 'node:crypto';
import { build, describe } from './build.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UserError } from './lib/errors.mjs';
import { nodeBinary } from './lib/node.mjs';
import { inProject } from './lib/paths.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { OFFLINE } from './lib/wrangler.mjs';

const USAGE = `Usage: npm run kills -- [options]

Kills the local runtime with SIGKILL at random moments under load, starts it again, and checks that nothing that was
acknowledged is lost (tests/e2e/crash.test.mjs). The moments follow from the seed; what is under way at each does not.

  --kills N     how often to kill it (default 50, at most 10000)
  --seed TEXT   the seed of an earlier run; without it a new one is drawn, and printed
  --help        this text`;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  await setup();
  console.log(describe(await build()));
  console.log(`${options.kills} kills, seed ${options.seed}`);
  const env = { ...OFFLINE, CRASH_KILLS: String(options.kills), CRASH_SEED: options.seed };
  return runOnTerminal(nodeBinary(), ['--test', '--test-reporter=spec', inProject('tests', 'e2e', 'crash.test.mjs')], { env });
});

/** @param {string[]} args */
function parseOptions(args) {
  const { kills, seed, help } = parseCommandLine(args, USAGE, {
    kills: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(randomInt(2 ** 32)) },
  });
  if (!/^[1-9]\d{0,3}$|^10000$/.test(kills)) throw new UserError(`--kills takes a number from 1 to 10000, not ${kills}.`, USAGE);
  if (seed === '') throw new UserError('--seed takes a text.', USAGE);
  return { kills: Number(kills), seed, help };
}
