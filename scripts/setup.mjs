// `npm run setup`: installs what the other commands need, without starting anything.

import { parseCommandLine } from './lib/command-line.mjs';
import { main } from './lib/errors.mjs';
import { setup } from './lib/setup.mjs';

const USAGE = `Usage: npm run setup

Installs what is missing for building, running and testing the hub: the npm packages, the Rust toolchain with its wasm
target, the program that binds the wasm, a newer Node for wrangler where this one is too old, and .dev.vars with a
random access token. Every other command does this by itself.

  --help  this text

HUB_TOOLS_DIR=PATH keeps that program and the newer Node there and not in .tools, for all clones on this machine.`;

await main(async () => {
  if (parseCommandLine(process.argv.slice(2), USAGE).help) {
    console.log(USAGE);
    return;
  }
  await setup();
  console.log('Everything is set up. Next: `npm run dev` starts the hub, `npm test` runs every check.');
});
