/** The command lines of `npm run bench`, `npm run load`, `npm run idle` and `npm run cost`. */

import { resolve } from 'node:path';

import { parseCommandLine } from '../../scripts/lib/command-line.mjs';
import { UsageError } from '../../scripts/lib/errors.mjs';
import { DEFAULT_BUILD } from './hub.mjs';
import { scheduleOf } from './measure.mjs';
import { comparedScenarioNames, defaultScenarioNames, scenarioNames } from './scenarios.mjs';

const BUILD_HELP = '  --build DIR    the built hub to measure (default: build)';

const COMMON_HELP = `  --quick        short runs, for a first impression
  --way WAY      how CLIs send their token: connect (in the CONNECT packet, the default) or header (with the upgrade)
  --json         print the result as JSON instead of a table
  --out FILE     where to write the JSON (default: bench/results/<date>.json)
  --help         this text`;

const USAGES = {
  bench: `Usage: npm run bench -- [options]
       npm run bench -- --compare [options] BUILD_A BUILD_B

Measures the built hub in the real runtime, next to the floor: plain JavaScript that does the same work. With --compare,
measures two builds in turns, and prints the ratios of their figures with the spread. Give the same folder twice to see the
noise.

  --only NAMES   comma-separated scenarios: ${scenarioNames().join(', ')}
                 (default: ${defaultScenarioNames().join(', ')};
                 with --compare: ${comparedScenarioNames().join(', ')})
  --floor        measure only the floor, without a hub
${BUILD_HELP}
${COMMON_HELP}`,
  load: `Usage: npm run load -- [options]

Runs the scenarios load (a full namespace for 150 s), tenants (20 namespaces, one of them noisy) and long-session (200,000
messages with local ids into one session) of \`npm run bench\`. Takes about five minutes.

${BUILD_HELP}
${COMMON_HELP}`,
  idle: `Usage: npm run idle -- [options]

Runs the scenario idle of \`npm run bench\`: counts what an idle namespace uses. Takes about five minutes.

${BUILD_HELP}
${COMMON_HELP}`,
  cost: `Usage: npm run cost -- [options]

Runs the scenario cost of \`npm run bench\`: counts what a working day of a busy namespace uses, and prints what a month of
such days costs by the platform's list prices. Takes about four minutes.

${BUILD_HELP}
${COMMON_HELP}`,
};

/** @satisfies {import('node:util').ParseArgsOptionsConfig} */
const COMMON_OPTIONS = {
  quick: { type: 'boolean', default: false },
  build: { type: 'string' },
  way: { type: 'string', default: 'connect' },
  json: { type: 'boolean', default: false },
  out: { type: 'string' },
};

/** @satisfies {import('node:util').ParseArgsOptionsConfig} */
const BENCH_OPTIONS = {
  ...COMMON_OPTIONS,
  only: { type: 'string' },
  floor: { type: 'boolean', default: false },
  compare: { type: 'boolean', default: false },
};

/**
 * @typedef {{quick?: boolean, build?: string, way?: string, json?: boolean, out?: string, only?: string, floor?: boolean,
 *   compare?: boolean, help?: boolean, words?: string[]}} Values
 */

/** The scenarios of the commands without `--only`. */
const SCENARIOS = { load: ['load', 'tenants', 'long-session'], idle: ['idle'], cost: ['cost'] };

/**
 * Returns the two builds of `--compare`, or null.
 * @param {Values} values
 * @param {string} usage
 * @throws {UsageError}
 */
function readCompared({ compare, floor, build, words = [] }, usage) {
  if (!compare && words.length > 0) throw new UsageError(`Unexpected argument '${words[0]}'. Only --compare has arguments.`, usage);
  if (!compare) return null;
  if (floor || build)
    throw new UsageError(`--compare measures the floor and two builds. It excludes ${floor ? '--floor' : '--build'}.`, usage);
  if (words.length !== 2) throw new UsageError(`--compare needs two folders with builds, not ${words.length}.`, usage);
  return words.map((folder) => resolve(folder));
}

/**
 * Returns the workers to measure. The first is the floor.
 * @param {{floor?: boolean}} values
 * @param {string} build
 * @param {string[] | null} compared
 * @returns {{name: string, kind: string, build?: string}[]}
 */
function listWorkers({ floor }, build, compared) {
  const hubs = compared
    ? compared.map((folder, index) => ({ name: 'AB'[index], kind: 'hub', build: folder }))
    : [{ name: 'hub', kind: 'hub', build }];
  return [{ name: 'floor', kind: 'floor' }, ...(floor ? [] : hubs)];
}

/**
 * @param {string[]} args may start with the command `load`, `idle` or `cost`; the default is `bench`
 * @returns the options, the `usage` of the command, the `names` of the scenarios in their fixed order, their `schedule`,
 *   and the `workers`
 * @throws {UsageError}
 */
export function readOptions(args) {
  const command = Object.hasOwn(SCENARIOS, args[0]) ? args[0] : 'bench';
  const usage = USAGES[command];
  const isBench = command === 'bench';
  /** @type {Values} */
  const values = isBench
    ? parseCommandLine(args, usage, BENCH_OPTIONS, { words: true })
    : parseCommandLine(args.slice(1), usage, COMMON_OPTIONS);
  const compared = readCompared(values, usage);
  const defaults = compared ? comparedScenarioNames() : defaultScenarioNames();
  const chosen = SCENARIOS[command] ?? values.only?.split(',').map((name) => name.trim()) ?? defaults;
  const unknown = chosen.filter((name) => !scenarioNames().includes(name));
  if (unknown.length > 0) throw new UsageError(`--only: there is no scenario ${unknown.join(', ')}.`, usage);
  const notComparable = compared ? chosen.filter((name) => !comparedScenarioNames().includes(name)) : [];
  if (notComparable.length > 0) throw new UsageError(`--compare cannot run ${notComparable.join(', ')}.`, usage);
  if (!['connect', 'header'].includes(values.way)) throw new UsageError(`--way must be connect or header, not ${values.way}.`, usage);
  const build = values.build ? resolve(values.build) : DEFAULT_BUILD;
  return {
    ...values,
    usage,
    names: scenarioNames().filter((name) => chosen.includes(name)),
    compared,
    schedule: scheduleOf({ quick: values.quick, compares: compared !== null }),
    workers: listWorkers(values, build, compared),
    build,
    out: values.out ? resolve(values.out) : null,
  };
}
