// Upgrades a deployed hub: says what the upgrade changes, applies it, and rolls it back after a failure.

import { readFileSync } from 'node:fs';
import { printError, UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { inProject, IS_PACKAGE } from '../../lib/paths.mjs';
import { runStep } from '../../lib/progress.mjs';
import { atLeast } from '../../lib/versions.mjs';
import { changesBetween } from './changelog.mjs';
import { PRODUCTION } from './record.mjs';
import { runSteps } from './run-steps.mjs';
import { DEPLOYMENT_STEPS } from './steps.mjs';
import { waitUntilDeployed } from './verify.mjs';

const REQUEST_TIMEOUT_MS = 10_000;
/** Time limit until the hub answers with the earlier version after a rollback. */
const ROLLBACK_TIMEOUT_MS = 60_000;

/**
 * @typedef {object} Plan
 * @property {string} address of the deployed hub
 * @property {string} from the deployed version
 * @property {string} to the version of this package or clone
 * @property {string} versionId the platform's id of the deployed version
 * @property {string[]} changes sections of the changelog
 * @property {string[]} migrations the names of the missing migrations
 */

/**
 * Returns the version of the hub at an address.
 * @param {string} address
 * @returns {Promise<string>}
 */
async function readVersion(address) {
  try {
    const response = await fetch(`${address}/health`, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    const { version } = /** @type {any} */ (await response.json());
    if (typeof version === 'string') return version;
  } catch {
    // Without an answer, the error below is thrown.
  }
  throw new UserError(
    `${address} does not answer as a hub, so its version is unknown.`,
    `Give its address with --hub URL. To deploy without comparing: ${commandLine('deploy')}`,
  );
}

/**
 * Compares the deployed hub with this package or clone.
 * @param {{platform: import('./platform.mjs').Platform, config: string, address: string}} deployed
 * @returns {Promise<Plan>}
 */
export async function makePlan({ platform, config, address }) {
  const from = await readVersion(address);
  const { version: to } = JSON.parse(readFileSync(inProject('package.json'), 'utf8'));
  if (!atLeast(to, from)) {
    const newest = IS_PACKAGE ? 'npx session-gateway-hub@latest upgrade' : 'git pull';
    throw new UserError(
      `The deployed version ${from} is newer than the version of this ${IS_PACKAGE ? 'package' : 'clone'}, ${to}.`,
      `Get the newest version with: ${newest}`,
    );
  }
  const changes = changesBetween(readFileSync(inProject('CHANGELOG.md'), 'utf8'), { from, to, isReleased: IS_PACKAGE });
  const migrations = await platform.listMissingMigrations(config);
  return { address, from, to, versionId: await platform.activeVersion(config), changes, migrations };
}

/** Whether an upgrade would change nothing. @param {Plan} plan */
export const isUpToDate = ({ from, to, changes, migrations }) => from === to && changes.length === 0 && migrations.length === 0;

/** Returns what an upgrade changes, for the user. @param {Plan} plan */
export function describePlan({ address, from, to, changes, migrations }) {
  const title =
    from === to ? `${address} has version ${from}, perhaps of an earlier commit.` : `${address}: from version ${from} to ${to}.`;
  const added =
    migrations.length === 0 ? 'None.' : `These migrations are applied first:\n${migrations.map((name) => `  ${name}`).join('\n')}`;
  return [title, ...changes, `## Database\n\n${added}`].join('\n\n');
}

/** The command that deploys an earlier version again. @param {string} env @param {string} versionId */
function rollbackCommand(env, versionId) {
  return commandLine('wrangler', `rollback ${versionId}${env === PRODUCTION ? '' : ` --env ${env}`}`);
}

/**
 * Applies an upgrade, and rolls it back if the new version does not answer or fails the smoke test.
 * @param {import('./steps.mjs').Run} run
 * @param {Plan} plan
 * @throws {UserError} if the upgrade failed
 */
export async function upgrade(run, plan) {
  const { from, to, versionId } = plan;
  try {
    await runSteps(DEPLOYMENT_STEPS, run);
  } catch (error) {
    if (run.versionId === undefined) {
      if (error instanceof UserError) error.hint = `${error.hint ?? ''}\nNothing was deployed: version ${from} still runs.`.trim();
      throw error;
    }
    // The advice of the error says that a second run continues the deployment, which is not true after a rollback.
    if (error instanceof UserError) error.hint = undefined;
    printError(error);
    await rollBack(run, plan);
  }
  console.log(
    [
      '',
      `  The hub was upgraded from version ${from} to ${to}.`,
      '  Go back to the earlier version:',
      `    ${rollbackCommand(run.options.env, versionId)}`,
      '',
    ].join('\n'),
  );
}

/**
 * @param {import('./steps.mjs').Run} run
 * @param {Plan} plan
 * @returns {Promise<never>}
 */
async function rollBack({ platform, config, options }, { address, from, to, versionId }) {
  console.log('');
  try {
    await runStep('rollback', async (update) => {
      await platform.rollBack(config, versionId);
      await waitUntilDeployed(address, from, { timeoutMs: ROLLBACK_TIMEOUT_MS, update });
    });
  } catch (error) {
    printError(error);
    throw new UserError(
      `The upgrade to version ${to} failed, and so did the rollback to ${from}. Version ${to} may still get the requests.`,
      `Roll back yourself: ${rollbackCommand(options.env, versionId)}\nThen check the hub: ${commandLine('smoke', `--hub ${address} --quick`)}`,
    );
  }
  throw new UserError(
    `The upgrade to version ${to} failed, and was rolled back: version ${from} runs again. The migrations stay: they only add to the database.`,
    `See why: ${commandLine('wrangler', 'tail')}\nTry again: ${commandLine('upgrade')}`,
  );
}
