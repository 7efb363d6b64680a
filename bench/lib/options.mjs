/** The command lines of `npm run bench`, `npm run load` and `npm run cost`. */

import { resolve } from 'node:path';

import { parseCommandLine } from '../../scripts/lib/command-line.mjs';
import { UsageError } from '../../scripts/lib/errors.mjs';
import { BUILD_DIR } from '../../scripts/lib/paths.mjs';
import { scheduleOf } from './measure.mjs';
import { SCENARIOS } from './scenarios.mjs';

/** The scenarios of the commands without `--only`. */
const COMMANDS = { load: ['load', 'tenants', 'long-session'], cost: ['cost'] };

const BENCH_USAGE = `Usage: npm run bench -- [options]
       npm run bench -- --compare [options] BUILD_A BUILD_B

Measures the built hub in the real runtime, next to the floor: plain JavaScript that does the same work. With --compare,
measures two builds in turns, and prints the ratios of their figures with the spread. Give the same folder twice to see the
noise.

  --only NAMES   comma-separated scenarios: ${SCENARIOS.all.join(', ')}
                 (default: ${SCENARIOS.compared.join(', ')}, which are those of --compare)`;

const COMMON_HELP = `  --quick        short runs, for a first impression
  --json         print the result as JSON instead of a table
  --help         this text`;

function usageOf(command) {
  if (command === 'bench') return `${BENCH_USAGE}\n${COMMON_HELP}`;
  return `Usage: npm run ${command} -- [options]

Runs the scenarios ${COMMANDS[command].join(', ')} of \`npm run bench\`. Takes about five minutes.

${COMMON_HELP}`;
}

/** @satisfies {import('node:util').ParseArgsOptionsConfig} */
const OPTIONS = {
  only: { type: 'string' },
  compare: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
};

/**
 * @param {string[]} args may start with the command `load` or `cost`; the default is `bench`
 * @returns the options, the `names` of the scenarios in their fixed order, the two `compared` builds or null, the `schedule`, and the
 *   `workers` to measure, the floor first
 * @throws {UsageError}
 */
export function readOptions(args) {
  const command = Object.hasOwn(COMMANDS, args[0]) ? args[0] : 'bench';
  const usage = usageOf(command);
  const { words, ...values } = parseCommandLine(command === 'bench' ? args : args.slice(1), usage, OPTIONS, { words: true });
  if (!values.compare && words.length > 0) throw new UsageError(`Unexpected argument '${words[0]}'. Only --compare has arguments.`, usage);
  if (values.compare && words.length !== 2) throw new UsageError(`--compare needs two folders with builds, not ${words.length}.`, usage);
  const possible = values.compare ? SCENARIOS.compared : SCENARIOS.all;
  const defaults = COMMANDS[command] ?? SCENARIOS.compared;
  const chosen = values.only?.split(',').map((name) => name.trim()) ?? defaults;
  const unknown = chosen.filter((name) => !SCENARIOS.all.includes(name));
  if (unknown.length > 0) throw new UsageError(`--only: there is no scenario ${unknown.join(', ')}.`, usage);
  const notComparable = chosen.filter((name) => !possible.includes(name));
  if (notComparable.length > 0) throw new UsageError(`--compare cannot run ${notComparable.join(', ')}.`, usage);
  const compared = values.compare ? words.map((folder) => resolve(folder)) : null;
  const hubs = compared?.map((build, index) => ({ name: 'AB'[index], kind: 'hub', build })) ?? [
    { name: 'hub', kind: 'hub', build: BUILD_DIR },
  ];
  return {
    ...values,
    names: possible.filter((name) => chosen.includes(name)),
    compared,
    schedule: scheduleOf({ quick: values.quick, compares: values.compare }),
    workers: [{ name: 'floor', kind: 'floor', build: undefined }, ...hubs],
  };
}
