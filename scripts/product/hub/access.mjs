// The options of commands that talk to a hub: its address, and the token of a namespace.

import { homedir } from 'node:os';
import path from 'node:path';
import { parseHubAddress } from '../../../packages/cli-kit/src/hub-address.mjs';
import { makeLog } from '../../../packages/cli-kit/src/log.mjs';
import { DEV_VARS_NAME } from '../../lib/dev-vars.mjs';
import { DEV_VARS } from '../../lib/paths.mjs';
import { prepareTools } from '../../build/prepare.mjs';
import { LOCAL_HUB } from './local-hub.mjs';

/** The hub of a client command without the option `--hub`. */
export const CLIENT_HUB = process.env.HUB_URL || LOCAL_HUB;

/**
 * The options, for `parseCommandLine`.
 * @type {{hub: {type: 'string', multiple: false, default: string}, 'token-file': {type: 'string', multiple: false}}}
 */
export const ACCESS_OPTIONS = {
  hub: { type: 'string', multiple: false, default: CLIENT_HUB },
  'token-file': { type: 'string', multiple: false },
};

/** The description of the options in a usage text. */
export const ACCESS_USAGE = `  --hub URL          address of the hub (default: HUB_URL, else the hub of this computer: now ${CLIENT_HUB})
  --token-file FILE  file with the access token (default: the variable CLI_API_TOKEN; else, for a hub on this computer,
                     ${DEV_VARS_NAME}; else this computer asks for access, and a signed-in person approves it)`;

/**
 * Returns the address of the hub that the options name, and a token for it. Installs the npm packages if they are missing.
 * @param {{hub: string, 'token-file'?: string}} options
 * @returns {Promise<{hub: string, token: string}>} `hub`: without a trailing slash
 */
export async function openAccess(options) {
  const hub = parseHubAddress(options.hub);
  await prepareTools();
  // Imported here, because this module needs the npm packages.
  const { signIn } = await import('../../../packages/cli-kit/src/sign-in.mjs');
  const home = process.env.SESSION_GATEWAY_HOME || path.join(homedir(), '.session-gateway-agent');
  const { token } = await signIn(
    { hub, home, tokenFile: options['token-file'] },
    { env: process.env, devVars: DEV_VARS, log: makeLog(), input: process.stdin, output: process.stderr },
  );
  return { hub, token };
}
