// `npx session-gateway-hub`: runs the built hub of the npm package on this computer until Ctrl-C.

import { main } from '../lib/errors.mjs';
import { writeLocalConfig } from './hub/local-config.mjs';
import { HUB_OPTIONS_HELP, readHubOptions } from './hub/options.mjs';
import { runHub } from './hub/run.mjs';
import { PACKAGE_USAGE } from './usage.mjs';
import { migrateLocalDatabases } from './hub/wrangler.mjs';

const USAGE = `${PACKAGE_USAGE}

Options of the hub:
${HUB_OPTIONS_HELP}`;

await main(async () => {
  const options = readHubOptions(process.argv.slice(2), USAGE);
  const prepare = async () => {
    writeLocalConfig();
    await migrateLocalDatabases();
  };
  return runHub(options, { args: ['--no-bundle'], prepare });
});
