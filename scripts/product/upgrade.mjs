// `npm run upgrade`, and a command of the npm package: upgrades the deployed hub, and rolls the upgrade back if it fails.

import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError, UserError } from '../lib/errors.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { withLock } from '../lib/lock.mjs';
import { deploymentFolder } from '../lib/paths.mjs';
import { prepareTools } from '../build/prepare.mjs';
import { runStep } from '../lib/progress.mjs';

const USAGE = `Usage: ${commandLine('upgrade', '[--env NAME] [--hub URL] [--yes]')}

Upgrades a deployed hub to this version: shows the changes and the missing migrations, asks, applies them, and runs the quick smoke
test. If the new version does not answer or fails the test, the earlier version is deployed again. The exit code is 1 if the upgrade
failed.

  --env NAME  another environment of deployment.json
  --hub URL   address of the deployed hub (default: as it was deployed)
  --yes       do not ask
  --help      this text

CLI_API_TOKEN is the token for the smoke test, as for \`${commandLine('deploy')}\`.`;

const terminalIsInteractive = () => process.stdin.isTTY === true && process.stdout.isTTY === true;

/** Asks whether to upgrade. */
async function confirm() {
  if (!terminalIsInteractive()) {
    throw new UserError('Nothing was changed: there is no terminal to ask on.', 'To upgrade without a question, add --yes.');
  }
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await lines.question('Upgrade the hub? [y/N] ')).trim());
  } finally {
    lines.close();
  }
}

/** @param {{env: string, hub?: string, yes: boolean}} options */
async function upgradeHoldingLock({ env, hub, yes }) {
  // Imported here, because these modules need the npm packages.
  const [{ Platform }, { ACCOUNT_STEP }, { runSteps }, { deployedAddress }, { readDeployment, writeConfig }, upgrades] = await Promise.all([
    import('./deploy/platform.mjs'),
    import('./deploy/steps.mjs'),
    import('./deploy/run-steps.mjs'),
    import('./deploy/address.mjs'),
    import('./deploy/config.mjs'),
    import('./deploy/upgrade.mjs'),
  ]);
  const deployHint = `To deploy it: ${commandLine('deploy')}`;
  if (!readDeployment(env).databaseId) throw new UserError(`There is no deployed hub of the environment ${env}.`, deployHint);
  const address = hub ?? deployedAddress(env);
  if (!address) throw new UserError('The address of the deployed hub is unknown.', 'Give it with --hub URL.');
  /** @type {import('./deploy/steps.mjs').Run} */
  const run = { options: { env, smoke: true }, platform: new Platform(), hasTerminal: terminalIsInteractive() };
  await runSteps([ACCOUNT_STEP], run);
  run.config = writeConfig(env);
  const deployed = { platform: run.platform, config: run.config, address: new URL(address).origin };
  const plan = await runStep('comparison with the deployed hub', () => upgrades.makePlan(deployed));
  if (upgrades.isUpToDate(plan)) {
    console.log(`\n  Nothing to do: the hub has version ${plan.to} and all migrations.`);
    return;
  }
  console.log(`\n${upgrades.describePlan(plan)}\n`);
  if (!yes && !(await confirm())) {
    console.log('Nothing was changed.');
    return;
  }
  await upgrades.upgrade(run, plan);
}

await main(async () => {
  const { env = 'production', ...options } = parseCommandLine(process.argv.slice(2), USAGE, {
    env: { type: 'string' },
    hub: { type: 'string' },
    yes: { type: 'boolean', default: false },
  });
  if (!/^[a-z0-9][a-z0-9-]{0,30}$/.test(env)) throw new UsageError(`--env must be a name of a-z 0-9 -, not \`${env}\`.`, USAGE);
  if (options.hub && !URL.canParse(options.hub)) throw new UsageError(`The address \`${options.hub}\` is not a URL.`, USAGE);
  await prepareTools();
  await withLock(path.join(deploymentFolder(env), '.lock'), `deployment of ${env}`, () => upgradeHoldingLock({ env, ...options }));
});
