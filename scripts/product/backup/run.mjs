// The process that `npm run split-backup` starts, because it needs node:sqlite. Arguments: the paths of the export and of the new file.

import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { main, UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { splitBackup } from './split.mjs';

await main(async () => {
  const [input, output] = process.argv.slice(2);
  const source = await openFile(input, 'r');
  // `wx` fails if the file exists. Only the user may read the file, because the database contains secrets.
  const target = await openFile(output, 'wx', 0o600);
  const counts = { statements: 0, split: 0, repaired: 0 };
  try {
    await pipeline(source.createReadStream(), (chunks) => splitBackup(chunks, counts), target.createWriteStream());
  } catch (error) {
    await rm(output, { force: true });
    throw error;
  }
  const name = path.relative('', output);
  console.log(`${name}: ${counts.statements} statements. Long statements that were split: ${counts.split}.`);
  if (counts.repaired > 0) console.log(`Rows whose JSON the export had changed, and which were repaired: ${counts.repaired}.`);
  console.log('Into an empty database, import it with:');
  console.log(commandLine('wrangler', `d1 execute DB --remote --file ${name}`));
});

/**
 * @param {string} file
 * @param {string} flags
 * @param {number} [mode]
 */
async function openFile(file, flags, mode) {
  try {
    return await open(file, flags, mode);
  } catch (error) {
    if (error.code === 'EEXIST') throw new UserError(`${file} exists.`, 'Delete it, or name another file with --out.');
    if (error.code === 'ENOENT') throw new UserError(`There is no ${flags === 'r' ? `file ${file}` : `folder ${path.dirname(file)}`}.`);
    throw error;
  }
}
