// `npm run wrangler -- ARGS`: runs the project's wrangler for a deployment of deployment.json, under a Node version that wrangler
// supports, and checks what wrangler does not check.

import { checkEnvironment, environmentOf } from './lib/environments.mjs';
import { main } from './lib/errors.mjs';
import { prepareTools } from './lib/prepare.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { WRANGLER_ENV, wranglerCommand } from './lib/wrangler.mjs';

await main(async () => {
  const given = process.argv.slice(2);
  // Only the user may read an exported database, because it contains the hub's signing keys.
  if (given.includes('export')) process.umask(0o077);
  await prepareTools();
  // Imported here, because this module needs the npm packages.
  const { withDeployment } = await import('./lib/deploy/config.mjs');
  const args = withDeployment(given, environmentOf(given, process.env));
  if (args === given) checkEnvironment(given, process.env);
  return runOnTerminal(...wranglerCommand(args), {
    env: { ...WRANGLER_ENV, CLOUDFLARE_ENV: args === given ? process.env.CLOUDFLARE_ENV : undefined },
  });
});
