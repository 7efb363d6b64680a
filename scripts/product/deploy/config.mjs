// Generates wrangler's configuration of a deployment, from wrangler.toml and the deployment's settings.

import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder } from '../../lib/make-folder.mjs';
import { UserError } from '../../lib/errors.mjs';
import { deploymentFolder, inProject, IS_PACKAGE } from '../../lib/paths.mjs';
import { readWranglerToml } from '../../lib/worker-settings.mjs';
import { PRODUCTION, readDeployments, updateDeployment } from './record.mjs';

/** The placeholder in wrangler.toml for the id of the database. A deployment by hand replaces this placeholder. */
const NO_DATABASE = '00000000-0000-0000-0000-000000000000';

/** The secret without which the hub does not work. */
export const SECRET_NAME = 'CLI_API_TOKEN';

/** The generated ids of rate limits, which are larger than the ids that people usually choose for the rate limits of their account. */
const RATE_LIMIT_IDS = { first: 1_000_000, count: 1_000_000_000 };

/** Reads the settings of a deployment. @param {string} env */
export const readDeployment = (env) => mergeDeployment(readWranglerToml(), env, readDeployments()[env]);

/**
 * Returns the settings of a deployment in deployment.json, with its default name, and with the database of a deployment by hand.
 * @param {Record<string, any>} base wrangler.toml
 * @param {string} env
 * @param {import('./record.mjs').Deployment} [recorded]
 * @returns {import('./record.mjs').Deployment & {name: string}}
 */
export function mergeDeployment(base, env, recorded) {
  const section = env === PRODUCTION ? base : (base.env?.[env] ?? {});
  const databaseId = section.d1_databases?.[0]?.database_id;
  const name = section.name ?? (env === PRODUCTION ? base.name : `${base.name}-${env}`);
  return { name, ...(databaseId && databaseId !== NO_DATABASE ? { databaseId } : {}), ...recorded };
}

/** The path of the generated configuration. @param {string} env */
const configPath = (env) => path.join(deploymentFolder(env), 'wrangler.json');

/** @param {object} settings */
const withoutUndefined = (settings) => Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));

/**
 * Stores settings of the command line in deployment.json.
 * @param {string} env
 * @param {{name?: string, domain?: string, address?: string, databases?: number}} settings
 */
export function saveOptions(env, settings) {
  const current = readDeployment(env);
  const { databases = 1 } = current;
  if (settings.databases !== undefined && settings.databases < databases) {
    throw new UserError(
      `This hub has ${databases} databases, and each may have namespaces.`,
      'Move the namespaces of the last one, then remove its id from `moreDatabaseIds` and change `databases` in deployment.json.',
    );
  }
  if (settings.name && current.databaseId && settings.name !== current.name) {
    throw new UserError(
      `This hub is deployed with the name ${current.name}. A Worker with another name would use its database at the same time.`,
      'For a second hub, choose another environment with --env NAME.',
    );
  }
  updateDeployment(env, withoutUndefined(settings));
}

/**
 * Writes the configuration of a deployment.
 * @param {string} env
 * @param {{name?: string, domain?: string}} [settings] replace the settings of deployment.json
 * @returns {string} the path of the file
 */
export function writeConfig(env, settings = {}) {
  const file = configPath(env);
  const deployment = { ...readDeployment(env), ...withoutUndefined(settings) };
  makeFolder(path.dirname(file));
  writeFileSync(file, `${JSON.stringify(makeConfig(readWranglerToml(), env, deployment), null, 2)}\n`);
  return file;
}

/**
 * @param {Record<string, any>} base wrangler.toml
 * @param {string} env
 * @param {import('./record.mjs').Deployment & {name: string}} deployment
 */
export function makeConfig(base, env, deployment) {
  const { accountId, name, databaseId = NO_DATABASE, moreDatabaseIds = [], domain, vars, wrangler } = deployment;
  const { env: environments, build, d1_databases: _, ...settings } = base;
  return {
    ...settings,
    name,
    account_id: accountId,
    main: inProject(base.main),
    // The npm package contains the built worker, so wrangler builds nothing. There is no `watch_dir`, because a deployment watches no folders.
    build: IS_PACKAGE ? undefined : { command: `node ${JSON.stringify(inProject('scripts', 'dev', 'build.mjs'))}` },
    assets: base.assets && { ...base.assets, directory: inProject(base.assets.directory) },
    d1_databases: [databaseId, ...moreDatabaseIds].map((id, index) => ({
      binding: bindingOf(index + 1),
      database_name: databaseName(name, index + 1),
      database_id: id,
      migrations_dir: inProject('migrations'),
    })),
    ratelimits: env === PRODUCTION ? base.ratelimits : base.ratelimits.map((limit) => ({ ...limit, namespace_id: rateLimitId(name) })),
    routes: domain ? [{ pattern: domain, custom_domain: true }] : base.routes,
    // Not in wrangler.toml: with `secrets` there, `wrangler dev` would ignore the other variables of .dev.vars.
    secrets: { required: [SECRET_NAME] },
    vars: { ...base.vars, ...environments?.[env]?.vars, ...vars },
    ...wrangler,
  };
}

/** Returns the binding of a database. @param {number} number from 1 */
const bindingOf = (number) => (number === 1 ? 'DB' : `DB_${number}`);

/** Returns the name of a database in the account. @param {string} name of the deployment @param {number} number from 1 */
export const databaseName = (name, number) => (number === 1 ? name : `${name}-${number}`);

/**
 * Returns the bindings of the databases of a deployment.
 * @param {string} [env]
 * @returns {string[]}
 */
export function deployedBindings(env = PRODUCTION) {
  return makeConfig(readWranglerToml(), env, readDeployment(env)).d1_databases.map(({ binding }) => binding);
}

/** Returns the id for an environment's rate limit. Each environment needs its own id: an account has one counter for each id. */
function rateLimitId(name) {
  const hash = createHash('sha256').update(name).digest().readUInt32BE();
  return String(RATE_LIMIT_IDS.first + (hash % RATE_LIMIT_IDS.count));
}

/** Reads the variables of a deployment. @param {string} env @returns {Record<string, unknown>} */
export const readVars = (env) => makeConfig(readWranglerToml(), env, readDeployment(env)).vars;

/** Whether a wrangler command only uses this computer, such as a query of the local database. */
const isLocal = (args) => args[0] === 'dev' || args.includes('--local');

/**
 * Selects the configuration of the deployment for a wrangler command, unless the command names a configuration.
 * @param {string[]} args of wrangler, perhaps with `--env`
 * @param {string | undefined} env the environment that the command names
 * @returns {string[]} the arguments with `--config` in place of `--env`; unchanged if deployment.json has no such environment
 */
export function withDeployment(args, env) {
  const isConfigured = args.some((arg) => /^(--config|-c)(=|$)/.test(arg));
  if (isConfigured || isLocal(args) || !readDeployments()[env || PRODUCTION]) return args;
  const withoutEnv = args.filter((arg, i) => !/^(--env|-e)(=|$)/.test(arg) && !/^(--env|-e)$/.test(args[i - 1] ?? ''));
  return [...withoutEnv, '--config', writeConfig(env || PRODUCTION)];
}
