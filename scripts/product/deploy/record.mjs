// deployment.json: the settings of each hub that was deployed from this computer.

import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { UserError } from '../../lib/errors.mjs';
import { DEPLOYMENTS } from '../../lib/paths.mjs';

/**
 * The settings of one deployment. `npm run deploy` writes the ids; the user may edit everything.
 * @typedef {object} Deployment
 * @property {string} [accountId]
 * @property {string} [name] of the Worker and of its database; default: the name in wrangler.toml, with `-ENV` for an environment
 * @property {string} [databaseId]
 * @property {number} [databases] how many databases the hub has; default: 1
 * @property {string[]} [moreDatabaseIds] of the databases with the bindings DB_2, DB_3 and so on
 * @property {string} [domain] a custom domain
 * @property {string} [address] the URL at which clients reach the hub; default: the URL that wrangler prints after the deployment
 * @property {Record<string, unknown>} [vars] replace the variables of wrangler.toml
 * @property {Record<string, unknown>} [wrangler] replaces other parts of wrangler.toml, such as `{"limits": {"cpu_ms": 300000}}`
 */

/** The name of the deployment without `--env`. */
export const PRODUCTION = 'production';

/** The keys of {@link Deployment}, with the types of their values. */
const KEYS = {
  accountId: 'string',
  name: 'string',
  databaseId: 'string',
  databases: 'number',
  moreDatabaseIds: 'array',
  domain: 'string',
  address: 'string',
  vars: 'object',
  wrangler: 'object',
};

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Reads all deployments.
 * @returns {Record<string, Deployment>} by environment; empty without the file
 * @throws {UserError} if the content of the file is invalid
 */
export function readDeployments() {
  let text;
  try {
    text = readFileSync(DEPLOYMENTS, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw error;
  }
  let deployments;
  try {
    deployments = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${DEPLOYMENTS} is not JSON: ${error.message}.`, 'Correct the file and run the command again.');
  }
  if (!isObject(deployments)) throw new UserError(`${DEPLOYMENTS} must be an object with one deployment for each environment.`);
  for (const [env, deployment] of Object.entries(deployments)) checkDeployment(env, deployment);
  return deployments;
}

/** @param {string} env @param {unknown} deployment */
function checkDeployment(env, deployment) {
  if (!isObject(deployment)) throw new UserError(`${DEPLOYMENTS}: \`${env}\` must be an object.`);
  for (const [key, value] of Object.entries(deployment)) {
    const type = KEYS[key];
    if (!type) throw new UserError(`${DEPLOYMENTS}: \`${env}.${key}\` is unknown. Known are ${Object.keys(KEYS).join(', ')}.`);
    const isValid = type === 'object' ? isObject(value) : type === 'array' ? Array.isArray(value) : typeof value === type;
    if (!isValid) throw new UserError(`${DEPLOYMENTS}: \`${env}.${key}\` must be ${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}.`);
  }
}

/**
 * Changes the settings of a deployment. A setting that is `undefined` is removed.
 * @param {string} env
 * @param {Partial<Deployment>} changes
 */
export function updateDeployment(env, changes) {
  const deployments = readDeployments();
  const updated = { ...deployments, [env]: { ...deployments[env], ...changes } };
  const text = `${JSON.stringify(updated, null, 2)}\n`;
  // Written to another file first: if the process is killed during the write, the old file is intact.
  writeFileSync(`${DEPLOYMENTS}.new`, text);
  renameSync(`${DEPLOYMENTS}.new`, DEPLOYMENTS);
}
