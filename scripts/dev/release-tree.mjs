// `npm run release-tree`: builds the hub, and writes the content of the branch `release` into dist/release/.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { inProject } from '../lib/paths.mjs';
import { prepareBuild } from '../build/prepare.mjs';

const USAGE = `Usage: npm run release-tree

Builds the hub, and writes the content of the branch \`release\` into dist/release/: the built hub, which the deploy button deploys.

  --help  this text`;

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await prepareBuild();
  // Imported here, because this module needs the npm packages.
  const { writeReleaseTree } = await import('./package/release-tree.mjs');
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = process.env;
  writeReleaseTree(inProject('dist', 'release'), server && name ? `${server}/${name}` : undefined);
  console.log('  dist/release has the content of the branch `release`.');
});
