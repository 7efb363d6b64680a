// `npm run doctor`, also a command of the npm package: checks this computer, and says what to do about each problem.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { examine } from './hub/doctor.mjs';
import { LOCAL_HUB } from './hub/local-hub.mjs';
import { parsePort } from './hub/options.mjs';
import { commandLine } from '../lib/invocation.mjs';

/** An address without a port has the port of HTTP. */
const PORT = new URL(LOCAL_HUB).port || '80';

const USAGE = `Usage: ${commandLine('doctor', '[--port N]')}

Checks Node, the runtime, the port, the data folder, the hub, the agents and git of this computer. Prints one line for each check, and
what to do about each problem. The exit code is 1 if there is a problem.

  --port N  port of the local hub (default ${PORT})
  --help    this text`;

await main(async () => {
  const { port } = parseCommandLine(process.argv.slice(2), USAGE, { port: { type: 'string', default: PORT } });
  const findings = await examine({ host: '127.0.0.1', port: parsePort(port, USAGE) });
  for (const { subject, mark, state, advice } of findings) {
    console.log(`${mark.padEnd(7)}  ${subject.padEnd(7)}  ${state}${advice ? ` ${advice}` : ''}`);
  }
  return findings.every(({ mark }) => mark !== 'problem') ? 0 : 1;
});
