// The command lines that start a command: `npm run` in the repository, `npx` for the npm package.

import { IS_PACKAGE } from './paths.mjs';

/** The command of the npm package, which also works in a shell where the package is installed globally. */
const PACKAGE_COMMAND = 'npx session-gateway-hub';

/** The name of the command that starts the hub. In the npm package, the hub starts without a command. */
export const HUB_COMMAND = IS_PACKAGE ? '' : 'dev';

let dataOption = '';

/** Sets the data folder that all command lines of the npm package name. @param {string} folder */
export function setDataOption(folder) {
  dataOption = `--data ${/^[\w./-]+$/.test(folder) ? folder : `"${folder}"`}`;
}

/**
 * Returns the command line of a command, for usage texts and advice.
 * @param {string} name such as `token`; {@link HUB_COMMAND} starts the hub
 * @param {string} [args]
 */
export function commandLine(name, args = '') {
  const words = IS_PACKAGE ? [PACKAGE_COMMAND, dataOption, name, args] : ['npm run', name, args && `-- ${args}`];
  return words.filter((word) => word !== '').join(' ');
}

/** Returns the command line that starts the hub. @param {string} [args] */
export const startLine = (args) => commandLine(HUB_COMMAND, args);
