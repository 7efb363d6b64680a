// `npm run split-backup -- FILE`, and a command of the npm package: rewrites an export of the database, so that D1 can import it. See
// docs/MAINTENANCE.md.

import path from 'node:path';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { prepareTools } from '../build/prepare.mjs';
import { runOnTerminal } from '../lib/run.mjs';

const USAGE = `Usage: ${commandLine('split-backup', 'FILE [--out FILE]')}

\`d1 export\` writes one statement for each row, but D1 refuses to import a statement of more than 100,000 bytes. Copies an
export with these changes:
- Splits a longer statement: an INSERT with the first part of the row, then an UPDATE for each further part.
- Repairs JSON with line breaks, in which \`d1 export\` replaces each \\n by a line break.
- Moves triggers to the end, so that they do not run during the import.

  --out FILE  the new file, which must not exist yet (default: FILE with -split in its name, as backup-split.sql)
  --help      this text`;

await main(async () => {
  const { out, words } = parseCommandLine(process.argv.slice(2), USAGE, { out: { type: 'string' } }, { words: true });
  const [input, ...furtherWords] = words;
  if (!input || furtherWords.length > 0 || out === '') throw new UsageError('Give one file, which `d1 export` has written.', USAGE);
  await prepareTools();
  const { dir, name, ext } = path.parse(input);
  const paths = [input, out ?? path.join(dir, `${name}-split${ext}`)].map((file) => path.resolve(file));
  // Some of the supported versions of Node warn about node:sqlite.
  return runOnTerminal(nodeBinary(), [
    '--disable-warning=ExperimentalWarning',
    inProject('scripts', 'product', 'backup', 'run.mjs'),
    ...paths,
  ]);
});
