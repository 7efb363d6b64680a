/** The variables that `npm run` and `npx` add to the environment of a CLI that they start. */

import path from 'node:path';

/** The settings in the `.npmrc` of this repository, which npm exports to scripts. The settings must not apply to the user's projects. */
const PROJECT_SETTINGS = ['audit', 'fund', 'ignore_scripts', 'omit_lockfile_registry_resolved', 'save_exact'];

/** The options of npx. With them, an npx of the agent would search only the CLI's package. */
const NPX_OPTIONS = ['call', 'package', 'yes'];

const SETTINGS = ['local_prefix', ...PROJECT_SETTINGS, ...NPX_OPTIONS];

const NPM_VARIABLES = new RegExp(`^(INIT_CWD|npm_(command|lifecycle_.*|package_.*|config_(${SETTINGS.join('|')})))$`);

/** The last folder that npm puts in front of the `PATH`, after the `node_modules/.bin` of the project and its parents. */
const LAST_NPM_FOLDER = 'node-gyp-bin';

/**
 * Whether the CLI was started by `npm run agent` or `npm run agent:shell`.
 * @param {Record<string, string | undefined>} env
 */
export const isNpmScript = (env) => /^agent(:|$)/.test(env.npm_lifecycle_event ?? '');

/**
 * Removes the variables and the folders of the PATH that `npm run` or `npx` has added. The agent's own npm commands then use the settings
 * of the user and of the session's directory. Keeps the user's settings, such as a registry.
 * @param {Record<string, string | undefined>} env
 */
export function removeNpmVariables(env) {
  if (!isNpmScript(env) && env.npm_lifecycle_event !== 'npx') return;
  for (const name of Object.keys(env)) {
    if (NPM_VARIABLES.test(name)) delete env[name];
  }
  const folders = (env.PATH ?? '').split(path.delimiter);
  const last = folders.findIndex((folder) => path.basename(folder) === LAST_NPM_FOLDER);
  if (last >= 0) env.PATH = folders.slice(last + 1).join(path.delimiter);
}
