// How a user starts a command: with `npm run` in the repository, with `npx` from the npm package.

import { IS_PACKAGE } from './paths.mjs';

/** The command of the npm package. It also works in a shell where the package is installed globally. */
export const PACKAGE_COMMAND = 'npx session-gateway-hub';

/** The command that starts the hub. */
export const HUB_COMMAND = IS_PACKAGE ? '' : 'dev';

/**
 * Returns the command line of a command, for usage texts and advice.
 * @param {string} name such as `token`; {@link HUB_COMMAND} starts the hub
 * @param {string} [args]
 */
export function commandLine(name, args = '') {
  const words = IS_PACKAGE ? [PACKAGE_COMMAND, name, args] : ['npm run', name, args && `-- ${args}`];
  return words.filter((word) => word !== '').join(' ');
}

/** Returns the command line that starts the hub. @param {string} [args] */
export const startLine = (args) => commandLine(HUB_COMMAND, args);
