// wrangler's environments. If the configuration does not have an environment, wrangler only warns, and uses the settings at the top of the
// file, which are the settings and the database of production.

import { readFileSync } from 'node:fs';
import { parse } from 'smol-toml';
import { UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { inProject } from '../../lib/paths.mjs';

/**
 * Returns the environment that a wrangler command names; undefined or empty for production.
 * @param {string[]} args of wrangler
 * @param {Record<string, string | undefined>} env
 */
export const environmentOf = (args, env) => optionOf(args, 'env', 'e') ?? env.CLOUDFLARE_ENV;

/**
 * Checks the environment that a wrangler command names.
 * @param {string[]} args of wrangler
 * @param {Record<string, string | undefined>} env
 * @throws {UserError} when the configuration does not have the environment, or another environment has the same database
 */
export function checkEnvironment(args, env) {
  const name = environmentOf(args, env);
  if (!name) return;
  const config = optionOf(args, 'config', 'c') ?? inProject('wrangler.toml');
  const hint = `Create it with: ${commandLine('deploy', `--env ${name}`)}`;
  const databases = readDatabases(readFileSync(config, 'utf8'));
  const databaseIds = databases.get(name);
  if (!databaseIds) {
    throw new UserError(`There is no environment ${name}: wrangler would use the settings and the database of production.`, hint);
  }
  for (const [otherName, ids] of databases) {
    const sharedId = otherName === name ? undefined : ids.find((id) => databaseIds.includes(id));
    if (sharedId) throw new UserError(`The environment ${name} has the database of ${otherName || 'production'}: ${sharedId}.`, hint);
  }
}

/** Returns the value of an option in a command line; the last value if the option is repeated. */
function optionOf(args, name, short) {
  const values = args.flatMap((arg, i) => {
    if (arg === `--${name}` || arg === `-${short}`) return [args[i + 1] ?? ''];
    const [, value] = new RegExp(`^(?:--${name}|-${short})=(.*)$`).exec(arg) ?? [];
    return value === undefined ? [] : [value];
  });
  return values.at(-1);
}

/** Reads the ids of the databases of each environment. Production has the empty name. @param {string} toml */
function readDatabases(toml) {
  const { env = {}, ...production } = /** @type {any} */ (parse(toml));
  const idsOf = ({ d1_databases: databases = [] }) => databases.map(({ database_id: id }) => id);
  return new Map(Object.entries({ '': production, ...env }).map(([name, settings]) => [name, idsOf(settings)]));
}
