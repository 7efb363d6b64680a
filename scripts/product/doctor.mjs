// `npm run doctor`, also a command of the npm package: checks this computer, and says what to do about each problem.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { parseHubAddress } from '../../packages/cli-kit/src/hub-address.mjs';
import { CLIENT_HUB } from './hub/access.mjs';
import { examine } from './hub/doctor.mjs';
import { localAddress, parsePort } from './hub/options.mjs';
import { commandLine } from '../lib/invocation.mjs';

const USAGE = `Usage: ${commandLine('doctor', '[--hub URL] [--port N]')}

Checks Node, the runtime, the port, the data folder, the hub, the agents and git of this computer. Prints one line for each check, and
what to do about each problem. The exit code is 1 if there is a problem.

  --hub URL  address of the hub (default: HUB_URL, else the hub of this computer: now ${CLIENT_HUB})
  --port N   port of the hub of this computer, instead of --hub
  --help     this text`;

await main(async () => {
  const { hub, port } = parseCommandLine(process.argv.slice(2), USAGE, { hub: { type: 'string' }, port: { type: 'string' } });
  if (hub !== undefined && port !== undefined) throw new UsageError('Give --hub or --port, not both.', USAGE);
  const local = port === undefined ? CLIENT_HUB : localAddress({ host: '127.0.0.1', port: parsePort(port, USAGE) });
  const findings = await examine(parseHubAddress(hub ?? local));
  for (const { subject, mark, state, advice } of findings) {
    console.log(`${mark.padEnd(7)}  ${subject.padEnd(7)}  ${state}${advice ? ` ${advice}` : ''}`);
  }
  return findings.every(({ mark }) => mark !== 'problem') ? 0 : 1;
});
