// `npm run smoke -- --hub URL --token T`: checks a running hub from outside, measures it, and removes what it created.

import { parseHubAddress } from '../../packages/cli-kit/src/hub-address.mjs';
import { isOnThisMachine } from '../../packages/cli-kit/src/token.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { accessToken, DEV_VARS_NAME, devVarsExist, namespaceToken } from '../lib/dev-vars.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { CLIENT_HUB } from './hub/access.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { prepareTools } from '../build/prepare.mjs';
import { onStop } from '../lib/signals.mjs';

const USAGE = `Usage: ${commandLine('smoke', '[--hub URL] [--token TOKEN] [--quick] [--json]')}

Checks a running hub as its clients see it: sign-in, a CLI, calls, 5,000 messages, an upload of 50 MiB, hibernation, replay,
and 200 CLIs that reconnect at once. Prints latencies and what the hub reports about itself, and deletes its sessions. Takes
about a minute, and a few minutes over a slow network. The exit code is 1 if a check failed.

  --hub URL      address of the hub, such as https://hub.example.com (default: HUB_URL, else the hub of
                 this computer: now ${CLIENT_HUB})
  --token TOKEN  access token; default: the environment variable CLI_API_TOKEN, or for a hub on this machine the token of
                 the namespace smoke from ${DEV_VARS_NAME}. Use a namespace without other users: SECRET:smoke, or what
                 \`CLI_API_TOKEN=SECRET ${commandLine('token', 'smoke')}\` prints
  --quick        only the checks that take seconds and write few rows: no bulk messages, upload, hibernation or 200 CLIs
  --json         print the report as JSON
  --help         this text`;

/** Returns the token of the namespace `smoke` for a hub of `npm run dev`, whose secret is in .dev.vars. */
function localToken(url) {
  return isOnThisMachine(url) && devVarsExist() ? namespaceToken(accessToken(), 'smoke') : undefined;
}

/** @param {import('./smoke/run.mjs').CheckReport} check */
function printProgress({ name, result, detail }) {
  const mark = { ok: '✓', failed: '✗', skipped: '-' }[result];
  // Standard output has only the report: it may be JSON.
  console.error(`  ${mark} ${name}${detail ? `: ${detail}` : ''}`);
}

await main(async () => {
  const options = parseCommandLine(process.argv.slice(2), USAGE, {
    hub: { type: 'string', default: CLIENT_HUB },
    token: { type: 'string', default: process.env.CLI_API_TOKEN },
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  });
  const url = parseHubAddress(options.hub);
  const token = options.token ?? localToken(url);
  if (!token) throw new UsageError('There is no access token.', 'Set --token, or the environment variable CLI_API_TOKEN.');
  await prepareTools();
  // Imported here, because these modules need the npm packages.
  const [{ SmokeClient }, { runSmoke }, { describeReport }] = await Promise.all(
    ['client', 'run', 'report'].map((name) => import(`./smoke/${name}.mjs`)),
  );
  const smoke = new SmokeClient({ url, token });
  onStop(async () => {
    console.error('\nRemoving the sessions of this run.');
    await smoke.cleanUp().catch(({ message }) => console.error(message));
  });
  const report = await runSmoke(smoke, printProgress, { isQuick: options.quick });
  console.log(options.json ? JSON.stringify(report, null, 2) : `\n${describeReport(report)}`);
  return report.passed ? 0 : 1;
});
