// `npm run wrangler -- ARGS`: runs the project's wrangler under a Node version that it supports. First checks that the environment exists,
// and that the environments share no database.

import { checkEnvironment } from './lib/environments.mjs';
import { main } from './lib/errors.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { WRANGLER_ENV, wranglerCommand } from './lib/wrangler.mjs';

await main(async () => {
  const args = process.argv.slice(2);
  checkEnvironment(args, process.env);
  // Only the user may read an exported database, because it contains the hub's signing keys.
  if (args.includes('export')) process.umask(0o077);
  await setup();
  return runOnTerminal(...wranglerCommand(args), { env: WRANGLER_ENV });
});
