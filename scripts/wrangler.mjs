// `npm run wrangler -- ARGS`: runs the project's wrangler under a Node version that it supports.

import { main } from './lib/errors.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { WRANGLER_ENV, wranglerCommand } from './lib/wrangler.mjs';

await main(async () => {
  await setup();
  return runOnTerminal(...wranglerCommand(process.argv.slice(2)), { env: WRANGLER_ENV });
});
