/** How this program is installed: in a clone of the repository, or from npm. */

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url));

/** Whether this program runs in a clone of the repository. */
export const IS_REPOSITORY = existsSync(path.join(REPOSITORY, 'Cargo.toml'));

/** The command that starts a hub on this computer. */
export const HUB_COMMAND = IS_REPOSITORY ? 'npm run dev' : 'npx session-gateway-hub';

/** The command that prints the token of a namespace. The namespace follows as the last argument. */
export const TOKEN_COMMAND = IS_REPOSITORY ? 'npm run token --' : 'npx session-gateway-hub token';

/** The file in which {@link HUB_COMMAND} stores the access token of its hub. */
export const LOCAL_DEV_VARS = IS_REPOSITORY
  ? path.join(REPOSITORY, '.dev.vars')
  : path.join(homedir(), '.session-gateway-hub', '.dev.vars');

/** The name of the file {@link LOCAL_DEV_VARS} in texts for the user. */
export const LOCAL_DEV_VARS_NAME = IS_REPOSITORY ? ".dev.vars in the project's root" : '~/.session-gateway-hub/.dev.vars';
