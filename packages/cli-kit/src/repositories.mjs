/** Finds the repository of a path: that of the session's directory, or a repository below it. */

import { lstat, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { describeGitError, git } from './git.mjs';

/** How many levels below a folder its repositories are searched. */
const MAX_DEPTH = 2;

/** Limit on the folders that are searched. */
const MAX_FOLDERS = 2000;

/**
 * A working tree. `cwd`: where git runs. `base`: the path from the session's directory to `cwd`, empty or with a slash at its end.
 * `prefix`: the path of `cwd` in its working tree, in the same form.
 * @typedef {{cwd: string, base: string, prefix: string}} Checkout
 */

/**
 * Finds the innermost repository that contains a path. The path must be inside of the directory; it need not exist.
 * @param {string} directory
 * @param {string} name relative; empty for the directory
 * @returns {Promise<Checkout | {error: string}>}
 */
export async function findCheckout(directory, name) {
  const folder = await nearestFolder(directory, name);
  const result = await git(['rev-parse', '--is-inside-work-tree', '--show-prefix'], path.join(directory, folder));
  if (result.code !== 0) return { error: describeGitError(result, directory) };
  const [isInside, prefix = ''] = result.stdout.toString('utf8').split('\n');
  if (isInside !== 'true') return { error: `The directory is not in a git working tree: ${directory}` };
  if (prefix.endsWith(folder)) return { cwd: directory, base: '', prefix: prefix.slice(0, prefix.length - folder.length) };
  // A folder behind a link has a path in the repository that does not show where the repository begins.
  if (!folder.endsWith(prefix)) return findCheckout(directory, '');
  const base = folder.slice(0, folder.length - prefix.length);
  return { cwd: path.join(directory, base), base, prefix: '' };
}

/**
 * Runs a function for a repository that {@link findRepositories} has found. Returns null if the function fails, or if the configuration of the
 * repository names another folder as its working tree: git would read that folder, which may be outside of the directory.
 * @template T
 * @param {string} directory
 * @param {string} name of the repository
 * @param {(checkout: Checkout) => Promise<T>} read
 */
export async function readRepository(directory, name, read) {
  const checkout = await findCheckout(directory, name);
  return 'error' in checkout || checkout.base !== name ? null : read(checkout).catch(() => null);
}

/** Returns the path of the innermost existing folder on the way to a path, empty or with a slash at its end. */
async function nearestFolder(directory, name) {
  for (let folder = name.replace(/\/+$/, ''); folder !== '' && folder !== '.'; folder = path.posix.dirname(folder)) {
    if ((await stat(path.join(directory, folder)).catch(() => null))?.isDirectory()) return `${folder}/`;
  }
  return '';
}

/**
 * Returns the repositories below a folder that is in no repository, by path. Hidden folders, `node_modules` and links are not searched.
 * @param {string} directory
 * @param {string} name relative path of the folder, empty or with a slash at its end
 * @returns {Promise<string[]>} relative paths with a slash at the end
 */
export async function findRepositories(directory, name) {
  const found = [];
  let folders = [name];
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    const below = [];
    for (const folder of folders.slice(0, MAX_FOLDERS)) {
      const entries = await readdir(path.join(directory, folder), { withFileTypes: true }).catch(() => []);
      for (const entry of entries) {
        if (!entry.isDirectory() || /^\.|^node_modules$/.test(entry.name)) continue;
        const child = `${folder}${entry.name}/`;
        const isRepository = await lstat(path.join(directory, child, '.git')).catch(() => null);
        (isRepository ? found : below).push(child);
      }
    }
    folders = below;
  }
  return found.sort();
}
