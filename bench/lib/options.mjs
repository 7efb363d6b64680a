/** The command lines of `npm run bench`, `npm run load`, `npm run idle` and `npm run cost`. */

import { resolve } from 'node:path';

import { parseCommandLine } from '../../scripts/lib/command-line.mjs';
import { UsageError } from '../../scripts/lib/errors.mjs';
import { DEFAULT_BUILD } from './hub.mjs';
import { defaultScenarioNames, scenarioNames } from './scenarios.mjs';

const COMMON_HELP = `  --quick        short runs, for a first impression
  --build DIR    the built hub to measure (default: build)
  --way WAY      how CLIs send their token: connect (in the CONNECT packet, the default) or header (with the upgrade)
  --json         print the result as JSON instead of a table
  --out FILE     where to write the JSON (default: bench/results/<date>.json)
  --help         this text`;

const USAGES = {
  bench: `Usage: npm run bench -- [options]

Measures the built hub in the real runtime, next to the floor: plain JavaScript that does the same work.

  --only NAMES   comma-separated scenarios: ${scenarioNames().join(', ')}
                 (default: ${defaultScenarioNames().join(', ')})
  --floor        measure only the floor, without a hub
${COMMON_HELP}`,
  load: `Usage: npm run load -- [options]

Runs the scenarios load (a full namespace for a minute) and tenants (20 namespaces, one of them noisy) of \`npm run bench\`.
Takes about three minutes.

${COMMON_HELP}`,
  idle: `Usage: npm run idle -- [options]

Runs the scenario idle of \`npm run bench\`: counts what an idle namespace uses. Takes about five minutes.

${COMMON_HELP}`,
  cost: `Usage: npm run cost -- [options]

Runs the scenario cost of \`npm run bench\`: counts what a working day of a busy namespace uses, and prints what a month of
such days costs by the platform's list prices. Takes about four minutes.

${COMMON_HELP}`,
};

const COMMON_OPTIONS = {
  quick: { type: 'boolean', default: false },
  build: { type: 'string' },
  way: { type: 'string', default: 'connect' },
  json: { type: 'boolean', default: false },
  out: { type: 'string' },
};

const BENCH_OPTIONS = { ...COMMON_OPTIONS, only: { type: 'string' }, floor: { type: 'boolean', default: false } };

/** The scenarios of the commands without `--only`. */
const SCENARIOS = { load: ['load', 'tenants'], idle: ['idle'], cost: ['cost'] };

/**
 * @param {string[]} args may start with the command `load`, `idle` or `cost`; the default is `bench`
 * @returns the options, the `usage` of the command, and the `names` of the scenarios in their fixed order
 * @throws {UsageError}
 */
export function readOptions(args) {
  const command = Object.hasOwn(SCENARIOS, args[0]) ? args[0] : 'bench';
  const usage = USAGES[command];
  const values = command === 'bench' ? parseCommandLine(args, usage, BENCH_OPTIONS) : parseCommandLine(args.slice(1), usage, COMMON_OPTIONS);
  const chosen = SCENARIOS[command] ?? values.only?.split(',').map((name) => name.trim()) ?? defaultScenarioNames();
  const unknown = chosen.filter((name) => !scenarioNames().includes(name));
  if (unknown.length > 0) throw new UsageError(`--only: there is no scenario ${unknown.join(', ')}.`, usage);
  if (!['connect', 'header'].includes(values.way)) throw new UsageError(`--way must be connect or header, not ${values.way}.`, usage);
  return {
    ...values,
    usage,
    names: scenarioNames().filter((name) => chosen.includes(name)),
    kinds: values.floor ? ['floor'] : ['floor', 'hub'],
    build: values.build ? resolve(values.build) : DEFAULT_BUILD,
    out: values.out ? resolve(values.out) : null,
  };
}
