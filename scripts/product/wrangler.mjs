// `npm run wrangler -- ARGS`: runs the project's wrangler with a Node version that wrangler supports.
// - For a deployment of deployment.json, passes the configuration of the deployment.
// - For the local hub (`--local`), passes its configuration and its database.
// - For another environment, first checks that the environment exists and has its own database.

import { main } from '../lib/errors.mjs';
import { IS_PACKAGE } from '../lib/paths.mjs';
import { prepareTools } from '../build/prepare.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { withLocalHub, WRANGLER_ENV, wranglerCommand } from './hub/wrangler.mjs';

await main(async () => {
  const userArgs = process.argv.slice(2);
  // Only the user may read an exported database, because it contains the hub's signing keys.
  if (userArgs.includes('export')) process.umask(0o077);
  await prepareTools();
  // Imported here, because these modules need the npm packages.
  const [{ withDeployment }, { checkEnvironment, environmentOf }, { writeLocalConfig }] = await Promise.all([
    import('./deploy/config.mjs'),
    import('./deploy/environments.mjs'),
    import('./hub/local-config.mjs'),
  ]);
  const args = withDeployment(userArgs, environmentOf(userArgs, process.env));
  const isDeployment = args !== userArgs;
  if (IS_PACKAGE) writeLocalConfig();
  if (!isDeployment) checkEnvironment(userArgs, process.env);
  return runOnTerminal(...wranglerCommand(isDeployment ? args : withLocalHub(args)), {
    env: { ...WRANGLER_ENV, CLOUDFLARE_ENV: isDeployment ? undefined : process.env.CLOUDFLARE_ENV },
  });
});
