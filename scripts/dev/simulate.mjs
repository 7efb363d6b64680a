// `npm run simulate`: runs the simulation of tests/it/simulation with more seeds than `cargo test` does.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';

const DEFAULT_SEEDS = 10_000;

const MAX_SEED = Number.MAX_SAFE_INTEGER;

const USAGE = `Usage: npm run simulate -- [options]

Runs the hub in simulations. The seed of a simulation determines what the clients do, which faults occur, and the order
of all steps. Prints the seeds that failed, and the steps of the first failure.

  --seeds N   number of simulations (default: ${DEFAULT_SEEDS})
  --first N   the first seed (default: the current time, so that each run is new)
  --seed N    run one simulation and print all its steps
  --help      this text`;

await main(async () => {
  const env = readOptions(process.argv.slice(2));
  await setup();
  return runOnTerminal('cargo', ['test', '--locked', '--test', 'it', '--', '--nocapture', 'simulation::no_data_is_lost'], { env });
});

/** Returns the variables of the test for the options. @param {string[]} args */
function readOptions(args) {
  const values = parseCommandLine(args, USAGE, {
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
  });
  for (const name of ['seeds', 'first', 'seed']) {
    const value = values[name];
    const min = name === 'seeds' ? 1 : 0;
    if (value !== undefined && !(/^\d+$/.test(value) && Number(value) >= min && Number(value) <= MAX_SEED)) {
      throw new UsageError(`--${name} must be a whole number from ${min} to ${MAX_SEED}, not ${value}.`, USAGE);
    }
  }
  const { seed, seeds = `${DEFAULT_SEEDS}`, first = `${Date.now()}` } = values;
  // No further simulation starts after this many failures.
  const maxFailures = '10';
  return seed === undefined ? { SIM_FIRST: first, SIM_SEEDS: seeds, SIM_FAILURES: maxFailures } : { SIM_SEED: seed };
}
