/** The command lines of `npm run bench`, `npm run load` and `npm run cost`. */

import { resolve } from 'node:path';

import { parseCommandLine } from '../../scripts/lib/command-line.mjs';
import { UsageError } from '../../scripts/lib/errors.mjs';
import { BUILD_DIR } from '../../scripts/lib/paths.mjs';
import { scheduleOf } from './measure.mjs';
import { SCENARIOS } from './scenarios.mjs';

/** The scenarios of the commands without `--only`. */
const COMMANDS = { load: ['load', 'tenants', 'long-session'], cost: ['cost'] };

const MAX_PASSES = 1000;

const COMMON_HELP = `  --quick        short runs, for a first impression
  --help         this text`;

const BENCH_USAGE = `Usage: npm run bench -- [options]
       npm run bench -- --compare [options] BUILD_A BUILD_B

Measures the built hub in the real runtime, next to the floor: plain JavaScript that does the same work. With --compare,
measures two builds in turns, and prints the ratios of their figures with the spread. Give the same folder twice to see the
noise.

  --only NAMES   comma-separated scenarios: ${SCENARIOS.all.join(', ')}
                 (default: ${SCENARIOS.compared.join(', ')}, which are those of --compare)
  --passes N     with --compare: how often each scenario runs, with new processes (default: 3, with --quick 1);
                 more passes show smaller differences
${COMMON_HELP}`;

const usageOf = (command) =>
  command === 'bench'
    ? BENCH_USAGE
    : `Usage: npm run ${command} -- [--quick]\n\nRuns the scenarios ${COMMANDS[command].join(', ')} of \`npm run bench\`.\n\n${COMMON_HELP}`;

/** @satisfies {import('node:util').ParseArgsOptionsConfig} */
const OPTIONS = {
  only: { type: 'string' },
  compare: { type: 'boolean', default: false },
  passes: { type: 'string' },
  quick: { type: 'boolean', default: false },
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
  const commandArgs = command === 'bench' ? args : args.slice(1);
  const { words, only, compare, passes, quick } = parseCommandLine(commandArgs, usage, OPTIONS, { words: true });
  if (!compare && words.length > 0) throw new UsageError(`Unexpected argument '${words[0]}'. Only --compare has arguments.`, usage);
  if (compare && words.length !== 2) throw new UsageError(`--compare needs two folders with builds, not ${words.length}.`, usage);
  if (!compare && passes !== undefined) throw new UsageError('--passes needs --compare.', usage);
  if (passes !== undefined && !(/^[1-9]\d*$/.test(passes) && Number(passes) <= MAX_PASSES))
    throw new UsageError(`--passes must be a whole number from 1 to ${MAX_PASSES}, not '${passes}'.`, usage);
  const possible = compare ? SCENARIOS.compared : SCENARIOS.all;
  const chosen = only?.split(',').map((name) => name.trim()) ?? COMMANDS[command] ?? SCENARIOS.compared;
  const unknown = chosen.filter((name) => !SCENARIOS.all.includes(name));
  if (unknown.length > 0) throw new UsageError(`--only: there is no scenario ${unknown.join(', ')}.`, usage);
  const notComparable = chosen.filter((name) => !possible.includes(name));
  if (notComparable.length > 0) throw new UsageError(`--compare cannot run ${notComparable.join(', ')}.`, usage);
  const compared = compare ? words.map((folder) => resolve(folder)) : null;
  const hubs = compared?.map((build, index) => ({ name: 'AB'[index], kind: 'hub', build })) ?? [
    { name: 'hub', kind: 'hub', build: BUILD_DIR },
  ];
  const schedule = scheduleOf({ quick, compares: compare });
  return {
    quick,
    names: possible.filter((name) => chosen.includes(name)),
    compared,
    schedule: passes === undefined ? schedule : { ...schedule, passes: Number(passes) },
    workers: [{ name: 'floor', kind: 'floor', build: undefined }, ...hubs],
  };
}
