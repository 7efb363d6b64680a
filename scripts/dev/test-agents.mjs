// `npm run test:agents`: tests the bridge with the real coding agents from npm and a scripted model. Each agent runs on the terminal with
// an in-memory hub, then in a browser with the built hub.

import { AGENTS } from '../../cli/src/agents.mjs';
import { build } from '../build/build.mjs';
import { installAgent } from '../build/agents.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { buildConsole } from '../build/console.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runOnTerminal, runParallel } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';

const NAMES = Object.keys(AGENTS);

const USAGE = `Usage: npm run test:agents -- [options]

Tests the bridge with the real coding agents from npm and a scripted model: each agent with an in-memory hub, then in a
browser with the built hub. Downloads 2 GB once. Needs Chromium.

  --agent NAME  test one agent; repeatable: ${NAMES.join(', ')}
  --help        this text`;

/** Time limit of a test file. */
const TIMEOUT_MS = 15 * 60_000;

await main(async () => {
  const { agent: chosen } = parseCommandLine(process.argv.slice(2), USAGE, {
    agent: { type: 'string', multiple: true, default: NAMES },
  });
  const unknown = chosen.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new UsageError(`--agent must be one of ${NAMES.join(', ')}, not ${unknown}.`, USAGE);
  await setup();
  await runParallel(() => build(), buildConsole, ...chosen.map((name) => () => installAgent(name)));
  const files = chosen.map((name) => inProject('tests', 'e2e', 'agents', `${name}.test.mjs`));
  const terminalFiles = ['agents', 'existing-sessions'].map((name) => inProject('cli', 'test', 'agents', `${name}.test.mjs`));
  // One file at a time, because the start of an agent takes seconds of CPU time.
  const options = ['--test', '--test-concurrency=1', `--test-timeout=${TIMEOUT_MS}`];
  const env = { ...LOCAL_COMMAND_ENV, AGENTS: chosen.join() };
  return runOnTerminal(nodeBinary(), [...options, ...terminalFiles, ...files], { env });
});
