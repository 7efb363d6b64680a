// `npm run wrangler -- ARGS`: the project's own wrangler, also on a machine whose Node is too old for it.

import { main } from './lib/errors.mjs';
import { runOnTerminal } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { wranglerCommand } from './lib/wrangler.mjs';

await main(async () => {
  await setup();
  return runOnTerminal(...wranglerCommand(process.argv.slice(2)), { env: { WRANGLER_SEND_METRICS: 'false' } });
});
