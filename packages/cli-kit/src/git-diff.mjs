/** The diff of one file: with its old name after a rename, with the markers of a conflict, and of a file that git does not track. */

import { constants } from 'node:fs';
import { lstat, open, readlink } from 'node:fs/promises';
import path from 'node:path';
import { describeGitError, git, gitOutput, pathspecOf } from './git.mjs';

const PLAIN_DIFF = ['diff', '--no-ext-diff', '--no-textconv', '--no-color'];

/** A diff with paths relative to the working directory, without programs and colors of the user's configuration. */
export const DIFF = [...PLAIN_DIFF, '--relative'];

/** What git prints in place of the diff of a file with a conflict, or before it. */
const UNMERGED = /^(\* Unmerged path .*\n|diff --cc )/;

/**
 * Returns the unified diff of a file, empty if the file is unchanged. A conflict has the same diff whether it is staged or not.
 * @param {string} cwd a directory in the repository
 * @param {string} name relative to `cwd`
 * @param {boolean} isStaged
 */
export async function diffFile(cwd, name, isStaged) {
  const args = [...DIFF, ...(isStaged ? ['--cached'] : [])];
  const diff = await gitOutput([...args, '--', pathspecOf(name)], cwd);
  if (UNMERGED.test(diff)) return diffConflict(cwd, name);
  if (diff === '' && !isStaged) return diffUntracked(cwd, name);
  const [head = ''] = diff.split('\n@@', 1);
  if (!/^new file mode /m.test(head)) return diff;
  // Without its old name, a renamed file looks new.
  const oldName = await findOldName(args, cwd, name);
  return oldName === undefined ? diff : gitOutput([...args, '--', pathspecOf(oldName), pathspecOf(name)], cwd);
}

/** Returns the name before a rename. */
async function findOldName(args, cwd, name) {
  const records = (await gitOutput([...args, '--name-status', '--diff-filter=R', '-z'], cwd)).split('\0');
  for (let at = 0; at + 2 < records.length; at += 3) if (records[at + 2] === name) return records[at + 1];
  return undefined;
}

/**
 * Returns the diff from our version of a file with a conflict to the file with its markers. If one side deleted the file, the diff shows what
 * the other side changed.
 */
async function diffConflict(cwd, name) {
  const records = (await gitOutput(['ls-files', '--unmerged', '-z', '--', pathspecOf(name)], cwd)).split('\0');
  const isInBoth = ['2', '3'].every((stage) => records.some((record) => record.split(/[ \t]/)[2] === stage));
  const diff = await gitOutput([...DIFF, isInBoth ? '--ours' : '--base', '--', pathspecOf(name)], cwd);
  return diff.replace(UNMERGED, '');
}

/** Returns the diff of an untracked file against /dev/null; empty for a tracked file. */
async function diffUntracked(cwd, name) {
  const listed = await git(['ls-files', '--others', '-z', '--', pathspecOf(name)], cwd);
  const bytes = listed.stdout.subarray(0, Math.max(0, listed.stdout.indexOf(0)));
  if (listed.code !== 0 || name === '' || bytes.toString('utf8') !== name) return '';
  const file = Buffer.concat([Buffer.from(`${cwd}${path.sep}`), bytes]);
  const info = await lstat(file).catch(() => null);
  if (info?.isSymbolicLink()) return diffNewLink(name, await readlink(file));
  // A pipe would block the read.
  if (!info?.isFile()) return '';
  if (bytes.equals(Buffer.from(name))) return diffNew(name, cwd);
  // An argument cannot have the bytes of a name that is not UTF-8.
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return await diffNew('-', cwd, handle.fd);
  } finally {
    await handle.close();
  }
}

async function diffNew(name, cwd, stdin) {
  const result = await git([...PLAIN_DIFF, '--no-index', '--', '/dev/null', name], cwd, { stdin });
  // With --no-index, exit code 1 means that there are differences.
  if (result.code !== 0 && result.code !== 1) throw new Error(describeGitError(result, cwd));
  return result.stdout.toString('utf8');
}

/** Returns the diff that git has for a new link. With --no-index, git would follow the link. */
function diffNewLink(name, target) {
  const lines = target.split('\n').map((line) => `+${line}\n`);
  const count = lines.length === 1 ? '1' : `1,${lines.length}`;
  return `diff --git a/${name} b/${name}\nnew file mode 120000\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +${count} @@\n${lines.join('')}\\ No newline at end of file\n`;
}
