// `npm run soak:agents`: one process of the bridge serves many sessions for a long simulated time, and its use of resources must not grow.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';

const MAX_VALUE = 1000;

const USAGE = `Usage: npm run soak:agents -- [options]

Serves sessions of a scripted agent with one process in simulated time, with users' actions and failures: approvals, the
queue, forks, restarts, crashes of agents, lost connections, sleep of the computer. Checks that nothing grows: objects, timers,
processes, listeners, files, memory (cli/test/soak.test.mjs). A day with 20 sessions takes minutes.

  --hours N     simulated hours (default 24, at most ${MAX_VALUE})
  --sessions N  number of sessions (default 20, at most ${MAX_VALUE})
  --help        this text`;

await main(async () => {
  const { hours, sessions } = parseCommandLine(process.argv.slice(2), USAGE, {
    hours: { type: 'string', default: '24' },
    sessions: { type: 'string', default: '20' },
  });
  for (const [name, value] of Object.entries({ hours, sessions })) {
    if (!(/^[1-9]\d*$/.test(value) && Number(value) <= MAX_VALUE)) {
      throw new UsageError(`--${name} must be a number from 1 to ${MAX_VALUE}, not ${value}.`, USAGE);
    }
  }
  await setup();
  const env = { SOAK_HOURS: hours, SOAK_SESSIONS: sessions };
  return runOnTerminal(nodeBinary(), ['--test', '--test-reporter=spec', inProject('cli', 'test', 'soak.test.mjs')], { env });
});
