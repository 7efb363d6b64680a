// `npm run wrangler -- ARGS`: the project's own wrangler, also on a machine whose Node is too old for it.

import { CommandFailed, main } from './lib/errors.mjs';
import { run } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { wranglerCommand } from './lib/wrangler.mjs';

await main(async () => {
  await setup();
  try {
    await run(...wranglerCommand(process.argv.slice(2)), { show: true, env: { WRANGLER_SEND_METRICS: 'false' } });
  } catch (error) {
    // wrangler has said what is wrong.
    if (error instanceof CommandFailed) return error.code ?? 1;
    throw error;
  }
});
