// `npm run status`, and a command of the npm package: prints the status of a namespace.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { ACCESS_OPTIONS, ACCESS_USAGE, openAccess } from './hub/access.mjs';
import { requestHub } from './hub/hub-request.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { describeStatus } from './hub/status.mjs';

const USAGE = `Usage: ${commandLine('status', '[--hub URL] [--token-file FILE] [--json]')}

Prints what the namespace of the token has: sessions, machines, connections, the latest faults and notifications. The exit code is
1 if the hub does not answer, or if its database is stalled.

${ACCESS_USAGE}
  --json             print the answer of the hub as JSON
  --help             this text`;

await main(async () => {
  const options = parseCommandLine(process.argv.slice(2), USAGE, {
    ...ACCESS_OPTIONS,
    json: { type: 'boolean', default: false },
  });
  const access = await openAccess(options);
  /** @type {import('./hub/status.mjs').Status} */
  const status = await requestHub(access, 'GET', '/api/status');
  console.log(options.json ? JSON.stringify(status, null, 2) : describeStatus(access.hub, status));
  return status.database.isStalled ? 1 : 0;
});
