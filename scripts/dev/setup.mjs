// `npm run setup`: installs everything that the other commands need.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { setup } from '../build/setup.mjs';

const USAGE = `Usage: npm run setup

Installs what is missing for building, running and testing the hub: the npm packages, the Rust toolchain with its wasm
target, the program that generates the wasm bindings, a newer Node for wrangler if this one is too old, and .dev.vars
with a random access token. The other commands install what they need by themselves.

  --help  this text

HUB_TOOLS_DIR=PATH installs the bindings program and the newer Node there instead of in .tools, to share them between
clones.`;

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await setup();
  console.log('Everything is installed. `npm run dev` starts the hub, `npm test` runs all checks.');
});
