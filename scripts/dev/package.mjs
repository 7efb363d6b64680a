// `npm run package`: builds the hub, and packs the npm packages of the hub and of the CLI into dist/.

import path from 'node:path';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { packAgent, packHub } from './package/staging.mjs';
import { inProject } from '../lib/paths.mjs';
import { prepareBuild } from '../build/prepare.mjs';

const USAGE = `Usage: npm run package

Builds the hub, and packs two npm packages into dist/: session-gateway-hub (the built hub with its commands) and
session-gateway-agent (the CLI). scripts/dev/package/files.mjs lists the files of both packages. Try a package with:
npx --package=./dist/FILE.tgz NAME

  --help  this text`;

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await prepareBuild();
  for (const { file, size, files } of [await packHub(), await packAgent()]) {
    console.log(`  ${path.relative(inProject(), file)}: ${Math.round(size / 1000)} KB, ${files.length} files.`);
  }
});
