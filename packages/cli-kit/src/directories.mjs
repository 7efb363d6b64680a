/** RPC methods of a machine for the start of a session: the folders and git branches in the served directories. */

import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { mapInBatches } from './batches.mjs';
import { pageOf } from './pages.mjs';
import { PathError, findServedDirectory, isInside } from './paths.mjs';
import { listBranches } from './worktree.mjs';

/** Limit on the folders in one answer. */
const MAX_FOLDERS = 1000;

/** Limit on the links of a directory that are resolved. Resolving very many links would exceed the hub's time limit. */
const MAX_LINKS = 10_000;

/**
 * @param {string[]} directories resolved paths of the served directories
 */
export function directoryMethods(directories) {
  return {
    /**
     * Returns the folders of a directory by name, hidden folders last. Without `path`: only the served directories, as `roots`. A link to
     * a folder is listed if the folder is served. `more`: how many folders were left out.
     * @param {{path?: unknown}} [params]
     * @returns {Promise<{success: true, path?: string, parent?: string, entries: {name: string, path: string, isGitRepository?: boolean}[],
     *   more?: number, roots: string[]}>}
     */
    async listDirectory({ path: requestedPath } = {}) {
      if (requestedPath === undefined || requestedPath === null || requestedPath === '') {
        return { success: true, entries: [], roots: directories };
      }
      const folder = await resolveServed(directories, requestedPath);
      const found = await readdir(folder, { withFileTypes: true }).catch((error) => {
        if (error.code === 'EACCES' || error.code === 'EPERM') throw new PathError(`Permission denied: ${folder}`);
        throw error;
      });
      const links = found.filter((entry) => entry.isSymbolicLink()).slice(0, MAX_LINKS);
      const isServedFolder = await mapInBatches(links, ({ name }) => leadsToServedFolder(directories, path.join(folder, name)));
      const linkedFolders = links.filter((_, index) => isServedFolder[index]);
      const names = [...found.filter((entry) => entry.isDirectory()), ...linkedFolders].map(({ name }) => name);
      const page = pageOf(names.sort(compareNames), 0, MAX_FOLDERS);
      const entries = await mapInBatches(page.entries, (name) => describeFolder(folder, name));
      const parent = path.dirname(folder);
      const hasParent = parent !== folder && directories.some((directory) => isInside(directory, parent));
      return { success: true, path: folder, ...(hasParent ? { parent } : {}), entries, ...page.moreField, roots: directories };
    },

    /** @param {{path?: unknown}} [params] */
    async listBranches({ path: requestedPath } = {}) {
      const directory = await resolveServed(directories, requestedPath);
      return { success: true, ...(await listBranches({ directory, directories })) };
    },
  };
}

/** Returns the resolved path of a served directory. */
async function resolveServed(directories, requestedPath) {
  if (typeof requestedPath !== 'string' || requestedPath === '') throw new PathError('"path" must be the path of a directory.');
  if (requestedPath.includes('\0')) throw new PathError('"path" must not contain NUL.');
  const { path: resolved, isServed, info } = await findServedDirectory(directories, requestedPath);
  if (!isServed) throw new PathError(`${requestedPath} is outside the directories this machine serves.`);
  if (!info?.isDirectory()) throw new PathError(`There is no directory ${requestedPath} on this machine.`);
  return resolved;
}

async function leadsToServedFolder(directories, link) {
  const target = await realpath(link).catch(() => null);
  if (target === null || !directories.some((directory) => isInside(directory, target))) return false;
  return (await stat(target).catch(() => null))?.isDirectory() === true;
}

async function describeFolder(folder, name) {
  const full = path.join(folder, name);
  const isGitRepository = await lstat(path.join(full, '.git')).then(
    () => true,
    () => false,
  );
  return { name, path: full, ...(isGitRepository ? { isGitRepository } : {}) };
}

/** Orders names without regard to case, hidden ones last. */
function compareNames(a, b) {
  const [lowerA, lowerB] = [a.toLowerCase(), b.toLowerCase()];
  return Number(a.startsWith('.')) - Number(b.startsWith('.')) || (lowerA < lowerB ? -1 : lowerA > lowerB ? 1 : a < b ? -1 : 1);
}
