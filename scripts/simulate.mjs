// `npm run simulate -- OPTIONS`: the long form of the simulation that is part of `cargo test` (tests/it/simulation).

import { parseCommandLine } from './lib/command-line.mjs';
import { main, UserError } from './lib/errors.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';

const DEFAULT_WORLDS = 10_000;

/** The largest number that a seed can be here: beyond it, numbers of JavaScript are not exact. */
const MAX_SEED = Number.MAX_SAFE_INTEGER;

const USAGE = `Usage: npm run simulate -- [options]

Runs the hub in simulated worlds. A seed makes a world: its clients, what they do, what goes wrong, and in which order
everything happens. Tells which seeds failed, and shows the steps of the first of them.

  --seeds N   how many worlds (default: ${DEFAULT_WORLDS})
  --first N   the seed of the first one (default: the time, so that every run has worlds of its own)
  --seed N    one world alone, with everything that happens in it
  --help      this text`;

await main(async () => {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  await setup();
  const { env } = options;
  return runOnTerminal('cargo', ['test', '--locked', '--test', 'it', '--', '--nocapture', 'simulation::whatever_happens'], { env });
});

/** @param {string[]} args */
function readOptions(args) {
  const values = parseCommandLine(args, USAGE, {
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
  });
  for (const name of ['seeds', 'first', 'seed']) {
    const value = values[name];
    if (name === 'seeds' && Number(value) === 0) throw new UserError('--seeds is at least 1.', USAGE);
    if (value !== undefined && !(/^\d+$/.test(value) && Number(value) <= MAX_SEED)) {
      throw new UserError(`--${name} is a whole number, not ${value}.`, USAGE);
    }
  }
  const { seed, seeds = `${DEFAULT_WORLDS}`, first = `${Date.now()}`, help } = values;
  const env = seed === undefined ? { SIM_FIRST: first, SIM_SEEDS: seeds, SIM_FAILURES: '10' } : { SIM_SEED: seed };
  return { env, help };
}
