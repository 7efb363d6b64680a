// `npm run format`: formats JavaScript and TypeScript, and applies the safe fixes of the linter.

import { biomeCommand } from '../build/biome.mjs';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { runOnTerminal } from '../lib/run.mjs';
import { ensurePackages } from '../build/setup.mjs';

const USAGE = `Usage: npm run format

Formats JavaScript and TypeScript, and applies the safe fixes of the linter. Fails if findings remain.

  --help  this text`;

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await ensurePackages();
  return runOnTerminal(...biomeCommand(['check', '--write', '--error-on-warnings']));
});
