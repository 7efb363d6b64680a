// The steps of a deployment. Each step reads from the platform and deployment.json what it still has to do. Therefore a second run updates the
// hub, and a run after a failed run continues the failed run.

import { readFileSync } from 'node:fs';
import { UserError } from '../../lib/errors.mjs';
import { inProject } from '../../lib/paths.mjs';
import { prepareBuild } from '../../build/prepare.mjs';
import { findAddress, storeAddress } from './address.mjs';
import { databaseName, readDeployment, readVars, SECRET_NAME, writeConfig } from './config.mjs';
import { updateDeployment } from './record.mjs';
import { createSecret, findSmokeToken, pendingSecret, secretsFile, storeSmokeToken } from './secret.mjs';
import { refusesToken, smokeTest, waitUntilDeployed } from './verify.mjs';

/**
 * @typedef {object} Options of the command
 * @property {string} env
 * @property {string} [account]
 * @property {string} [location]
 * @property {string} [jurisdiction]
 * @property {boolean} smoke
 *
 * @typedef {object} Run what the steps of one run share
 * @property {Options} options
 * @property {import('./platform.mjs').Platform} platform
 * @property {boolean} hasTerminal whether the user can be asked to sign in
 * @property {boolean} [isFirst] whether this run deploys a new hub: the platform had no access token for the hub before this run
 * @property {string} [config] path of wrangler's configuration
 * @property {string} [versionId] the platform's id of the version that this run has deployed
 * @property {string} [address] of the deployed hub
 * @property {boolean} [isReady] whether the hub answers at its address
 * @property {string} [secret] the access token of a new hub, until the access token has been printed
 *
 * @typedef {object} Step
 * @property {string} title
 * @property {boolean} [printsProgress] whether the step itself prints on the terminal
 * @property {(run: Run, update: (state: string) => void) => Promise<string>} run returns the result of the step, for the user
 */

/** Selects the account. Changes nothing on the platform. @type {Step} */
export const ACCOUNT_STEP = { title: 'account', printsProgress: true, run: selectAccount };

/** The steps after {@link ACCOUNT_STEP}. @type {Step[]} */
export const DEPLOYMENT_STEPS = [
  { title: 'build', printsProgress: true, run: build },
  { title: 'database', run: findOrCreateDatabase },
  { title: 'access token', run: ensureSecret },
  { title: 'migrations', run: migrate },
  { title: 'deployment', run: deploy },
  { title: 'answer', run: verify },
  { title: 'smoke test', run: testHub },
];

export const STEPS = [ACCOUNT_STEP, ...DEPLOYMENT_STEPS];

/** @param {Run} run */
async function selectAccount({ options, platform, hasTerminal }) {
  const chosenId = options.account || process.env.CLOUDFLARE_ACCOUNT_ID || readDeployment(options.env).accountId;
  // An API token may have no permission to list accounts.
  if (chosenId && process.env.CLOUDFLARE_API_TOKEN) return useAccount(platform, options.env, { id: chosenId, name: chosenId });
  let accounts = await platform.listAccounts();
  if (accounts === undefined) {
    if (!hasTerminal) {
      throw new UserError(
        'You are not signed in to Cloudflare, and there is no terminal to sign in.',
        'Set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID. docs/DEPLOY.md says what the token needs.',
      );
    }
    await platform.signIn();
    accounts = (await platform.listAccounts()) ?? [];
  }
  const list = accounts.map(({ id, name }) => `  ${id}  ${name}`).join('\n');
  if (!chosenId && accounts.length !== 1) {
    throw new UserError(
      accounts.length === 0 ? 'The accounts of this login cannot be listed.' : `This login has several accounts:\n${list}`,
      'Choose one with --account ID.',
    );
  }
  const account = chosenId ? accounts.find(({ id }) => id === chosenId) : accounts[0];
  if (!account) throw new UserError(`This login has no account ${chosenId}. It has:\n${list}`, 'Choose one with --account ID.');
  return useAccount(platform, options.env, account);
}

/** Uses an account for this run, and for later runs of the same deployment. */
function useAccount(platform, env, { id, name }) {
  const { accountId, databaseId } = readDeployment(env);
  if (accountId && databaseId && accountId !== id) {
    throw new UserError(
      `This hub is deployed in the account ${accountId}, not in ${id}.`,
      'For a second hub, choose another environment with --env NAME.',
    );
  }
  platform.useAccount(id);
  updateDeployment(env, { accountId: id });
  return name;
}

async function build() {
  await prepareBuild();
  return '';
}

/**
 * Returns the variables that set the place of the Durable Objects, from the options.
 * @param {Options} options
 */
function placeVars({ location, jurisdiction }) {
  return { ...(location ? { HUB_LOCATION: location } : {}), ...(jurisdiction ? { HUB_JURISDICTION: jurisdiction } : {}) };
}

/** @param {Run} run */
async function findOrCreateDatabase({ options, platform }) {
  const { env } = options;
  const { name, databaseId, vars: recordedVars } = readDeployment(env);
  const databases = await platform.listDatabases();
  const recorded = databases.find(({ uuid }) => uuid === databaseId);
  if (databaseId && !recorded) {
    throw new UserError(
      `The account has no database ${databaseId}, which is the database of this hub.`,
      'Choose the account with --account ID. If the database was deleted, remove `databaseId` from deployment.json: then an empty one is created.',
    );
  }
  const found = recorded ?? databases.find((database) => database.name === name);
  const vars = readVars(env);
  const isSamePlace = Object.entries(placeVars(options)).every(([key, value]) => vars[key] === value);
  if (found && !isSamePlace) {
    throw new UserError(
      `The database ${found.name} exists already. Its place cannot be changed.`,
      'Run the command without --location and --jurisdiction.',
    );
  }
  if (found) {
    updateDeployment(env, { databaseId: found.uuid });
    const created = await createFurtherDatabases(env, platform, databases);
    return created.length > 0 ? `${created.join(', ')} created` : `${found.name} exists`;
  }
  // Stored before the database is created: if this run is interrupted, the next run needs the place.
  if (!isSamePlace) updateDeployment(env, { vars: { ...recordedVars, ...placeVars(options) } });
  await platform.createDatabase(name, readVars(env));
  const created = (await platform.listDatabases()).find((database) => database.name === name);
  if (!created) throw new UserError(`The database ${name} was created, but is not in the list of databases.`, 'Run the command again.');
  updateDeployment(env, { databaseId: created.uuid });
  return `${[name, ...(await createFurtherDatabases(env, platform, databases))].join(', ')} created`;
}

/**
 * Creates the databases after the first one that are missing.
 * @param {string} env
 * @param {import('./platform.mjs').Platform} platform
 * @param {{uuid: string, name: string}[]} existing
 * @returns {Promise<string[]>} the names of the created databases
 */
async function createFurtherDatabases(env, platform, existing) {
  const { name, databases = 1, moreDatabaseIds = [] } = readDeployment(env);
  const missing = moreDatabaseIds.find((id) => !existing.some(({ uuid }) => uuid === id));
  if (missing)
    throw new UserError(
      `The account has no database ${missing}, which is a database of this hub.`,
      'See `moreDatabaseIds` in deployment.json.',
    );
  const created = [];
  for (let number = moreDatabaseIds.length + 2; number <= databases; number += 1) {
    const title = databaseName(name, number);
    let found = existing.find((database) => database.name === title);
    if (!found) {
      await platform.createDatabase(title, readVars(env));
      found = (await platform.listDatabases()).find((database) => database.name === title);
      if (!found) throw new UserError(`The database ${title} was created, but is not in the list of databases.`, 'Run the command again.');
      created.push(title);
    }
    updateDeployment(env, { moreDatabaseIds: [...(readDeployment(env).moreDatabaseIds ?? []), found.uuid] });
  }
  return created;
}

/** @param {Run} run */
async function ensureSecret(run) {
  const { env } = run.options;
  run.config = writeConfig(env);
  const isSecretSet = (await run.platform.listSecrets(run.config)).includes(SECRET_NAME);
  run.isFirst = !isSecretSet;
  if (!isSecretSet && pendingSecret(env) === undefined) createSecret(env);
  run.secret = pendingSecret(env);
  if (run.secret !== undefined) storeSmokeToken(env, run.secret);
  return isSecretSet ? `${SECRET_NAME} is set` : `${SECRET_NAME} is set with the deployment`;
}

/** @param {Run} run */
async function migrate({ platform, config }) {
  const count = await platform.migrate(config);
  return count === 0 ? 'the database has all' : `${count} applied`;
}

/** @param {Run} run */
async function deploy(run, update) {
  const { options, platform, config, isFirst } = run;
  const { targets, versionId } = await platform.deploy(config, {
    // A secret that exists is never replaced.
    secretsFile: isFirst ? secretsFile(options.env) : undefined,
    onLine: (line) => /^(?:Total Upload|Uploaded|Deployed)/.test(line) && update(line),
  });
  if (!versionId)
    throw new UserError('wrangler did not deploy: it needs a confirmation.', 'Look at the Worker in the dashboard of Cloudflare.');
  run.versionId = versionId;
  run.address = findAddress(options.env) ?? targets.find((target) => URL.canParse(target));
  if (!run.address) {
    throw new UserError(
      'The hub is deployed, but has no address.',
      'Set `domain` or `address` in deployment.json, or turn on the workers.dev address of the account.',
    );
  }
  run.address = new URL(run.address).origin;
  storeAddress(options.env, run.address);
  return `version ${versionId}`;
}

/** @param {Run} run */
async function verify(run, update) {
  const { address } = run;
  const { version } = JSON.parse(readFileSync(inProject('package.json'), 'utf8'));
  await waitUntilDeployed(address, version, { update });
  run.isReady = true;
  return `version ${version} at ${address}`;
}

/** @param {Run} run */
async function testHub({ options, address, isFirst }, update) {
  if (!options.smoke) return 'skipped';
  const token = findSmokeToken(options.env);
  if (!token) return 'skipped: set CLI_API_TOKEN to include it';
  if (!process.env.CLI_API_TOKEN && (await refusesToken(address, token)))
    return 'skipped: the secret has changed. Set CLI_API_TOKEN to include it';
  // Only a new hub gets the whole smoke test, which uses a third of the free plan's daily quota of written rows.
  const { checks } = await smokeTest({ address, token, isQuick: !isFirst, update });
  return `${checks.filter(({ result }) => result === 'ok').length} checks`;
}
