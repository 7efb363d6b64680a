// `npm run deploy`: deploys the hub to Cloudflare, or updates it.

import path from 'node:path';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError, UserError } from '../lib/errors.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { withLock } from '../lib/lock.mjs';
import { deploymentFolder } from '../lib/paths.mjs';
import { prepareBuild, prepareTools } from '../build/prepare.mjs';
import { runStep } from '../lib/progress.mjs';

const USAGE = `Usage: ${commandLine('deploy', '[options]')}

Deploys the hub to Cloudflare: signs in, creates the database and the access token, applies the migrations, uploads the Worker,
and tests the hub. Skips the steps that are done: a second run updates the hub, or continues a failed run.

  --env NAME             another hub in the same account, such as staging, with its own database and access token
  --dry-run              only build and check the configuration; needs no network and no account
  --account ID           the account, if the login has several
  --name NAME            of the Worker and of its database (default session-gateway-hub, with -ENV for an environment)
  --domain NAME          the hub's own domain, such as hub.example.com, in a zone of the account
  --address URL          where clients reach the hub, if they use another address, such as the address of a proxy
  --databases COUNT      how many databases the hub has; creates those that are missing, and never deletes one
  --location REGION      where the database is created: weur, eeur, apac, oc, wnam or enam (default: near this computer)
  --jurisdiction REGION  where the data must stay: eu, us or fedramp
  --no-smoke             without the smoke test, which takes a minute for a new hub, and seconds for an update
  --help                 this text

deployment.json has the settings. On a machine without a browser, CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID replace the
login. CLI_API_TOKEN is the access token of a new hub, or the token for the smoke test. docs/DEPLOY.md explains everything.`;

/** The options with a value: the pattern of the value, and the pattern in words. @type {Record<string, [RegExp, string]>} */
const VALUE_OPTIONS = {
  env: [/^[a-z0-9][a-z0-9-]{0,30}$/, 'a name of a-z 0-9 -'],
  account: [/^[0-9a-f]{32}$/, 'the id of an account: 32 of 0-9 a-f'],
  name: [/^[a-z0-9][a-z0-9-]{0,53}$/, 'a name of a-z 0-9 -'],
  domain: [/^(?:[a-z0-9-]+\.)+[a-z]{2,}$/, 'a domain, such as hub.example.com'],
  address: [/^https?:\/\/[^/]+\/?$/, 'an http or https address without a path'],
  databases: [/^[1-9]\d?$/, 'a number from 1 to 99'],
  location: [/^(?:weur|eeur|apac|oc|wnam|enam)$/, 'weur, eeur, apac, oc, wnam or enam'],
  jurisdiction: [/^(?:eu|us|fedramp)$/, 'eu, us or fedramp'],
};

/**
 * @typedef {import('./deploy/steps.mjs').Options & {name?: string, domain?: string, address?: string, databases?: string, dryRun: boolean}}
 *   CommandOptions
 */

/** @param {string[]} args @returns {CommandOptions} */
function readOptions(args) {
  const values = Object.fromEntries(Object.keys(VALUE_OPTIONS).map((name) => [name, { type: /** @type {const} */ ('string') }]));
  /** @type {any} */
  const options = parseCommandLine(args, USAGE, {
    ...values,
    'dry-run': { type: 'boolean', default: false },
    'no-smoke': { type: 'boolean', default: false },
  });
  for (const [name, [pattern, description]] of Object.entries(VALUE_OPTIONS)) {
    const value = options[name];
    if (value !== undefined && !pattern.test(value)) throw new UsageError(`--${name} must be ${description}, not \`${value}\`.`, USAGE);
  }
  if (options.location && options.jurisdiction) throw new UsageError('Give --location or --jurisdiction, not both.', USAGE);
  return { ...options, env: options.env ?? 'production', dryRun: options['dry-run'], smoke: !options['no-smoke'] };
}

/**
 * Builds the hub, and checks the configuration with wrangler, without the network.
 * @param {{env: string, name?: string, domain?: string}} options
 */
async function dryRun({ env, name, domain }) {
  const [{ Platform }, { writeConfig }, { isProjectWarning }] = await Promise.all([
    import('./deploy/platform.mjs'),
    import('./deploy/config.mjs'),
    import('./hub/wrangler.mjs'),
  ]);
  await prepareBuild();
  const config = writeConfig(env, { name, domain });
  const warnings = [];
  const onLine = (line) => isProjectWarning(line) && warnings.push(line.trim());
  await runStep('dry run of the deployment', () => new Platform().deploy(config, { dryRun: true, onLine }));
  if (warnings.length > 0) throw new UserError(`wrangler has warnings for the deployment:\n${warnings.join('\n')}`);
  console.log(`  The configuration is ${config}. Nothing was uploaded.`);
}

/**
 * Deploys. A second run for the same environment waits, so that it does not create another database.
 * @param {CommandOptions} options
 */
function deploy(options) {
  const lock = path.join(deploymentFolder(options.env), '.lock');
  return withLock(lock, `deployment of ${options.env}`, () => deployHoldingLock(options));
}

/** @param {CommandOptions} options */
async function deployHoldingLock(options) {
  // Imported here, because these modules need the npm packages.
  const [{ Platform }, { STEPS }, { runSteps }, { printClosing }, { saveOptions }, { forgetSecret }] = await Promise.all([
    import('./deploy/platform.mjs'),
    import('./deploy/steps.mjs'),
    import('./deploy/run-steps.mjs'),
    import('./deploy/closing.mjs'),
    import('./deploy/config.mjs'),
    import('./deploy/secret.mjs'),
  ]);
  const { env, name, domain, address, databases } = options;
  saveOptions(env, { name, domain, address, databases: databases && Number(databases) });
  const isTerminal = process.stdout.isTTY === true;
  /** @type {import('./deploy/steps.mjs').Run} */
  const run = { options, platform: new Platform(), hasTerminal: isTerminal && process.stdin.isTTY === true };
  const failure = await runSteps(STEPS, run).catch((error) => error);
  // After the upload, the user needs the address and the access token even if a check fails.
  if (failure && !run.address) throw failure;
  await printClosing({ env, address: run.address, newAccessToken: run.secret, isReady: run.isReady === true, isTerminal });
  forgetSecret(env);
  if (failure) throw failure;
}

await main(async () => {
  const options = readOptions(process.argv.slice(2));
  await prepareTools();
  await (options.dryRun ? dryRun(options) : deploy(options));
});
