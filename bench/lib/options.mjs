/** The command line of the bench. */

import { resolve } from 'node:path';

import { parseCommandLine } from '../../scripts/lib/command-line.mjs';
import { UserError } from '../../scripts/lib/errors.mjs';
import { DEFAULT_BUILD } from './hub.mjs';
import { scenarioNames, usualScenarioNames } from './scenarios.mjs';

export const USAGE = `Usage: npm run bench -- [options]

  --only NAMES   comma list of scenarios: ${scenarioNames().join(', ')}
                 (default: ${usualScenarioNames().join(', ')})
  --quick        short runs: a look, not a measurement
  --floor        the runtime's floor alone, without a hub
  --build DIR    the built hub to measure (default: build)
  --way WAY      how CLIs send their token: connect (inside the CONNECT packet, the default) or header (with the upgrade)
  --json         print the result as JSON in place of the table
  --out FILE     where to write the JSON (default: bench/results/<date>.json)
  --help         this text`;

const TYPES = {
  only: { type: 'string' },
  quick: { type: 'boolean', default: false },
  floor: { type: 'boolean', default: false },
  build: { type: 'string' },
  way: { type: 'string', default: 'connect' },
  json: { type: 'boolean', default: false },
  out: { type: 'string' },
};

/** The options as an object; throws an error that says what is wrong with them, and the usage. */
export function readOptions(args) {
  const values = parseCommandLine(args, USAGE, TYPES);
  const only = values.only?.split(',').map((name) => name.trim()) ?? usualScenarioNames();
  const unknown = only.filter((name) => !scenarioNames().includes(name));
  if (unknown.length > 0) throw new UserError(`--only: there is no scenario ${unknown.join(', ')}.`, USAGE);
  if (!['connect', 'header'].includes(values.way)) throw new UserError('--way is connect or header.', USAGE);
  return {
    ...values,
    // Always in the one order: a list given the other way round must not measure something else.
    names: scenarioNames().filter((name) => only.includes(name)),
    kinds: values.floor ? ['floor'] : ['floor', 'hub'],
    build: values.build ? resolve(values.build) : DEFAULT_BUILD,
    out: values.out ? resolve(values.out) : null,
  };
}
