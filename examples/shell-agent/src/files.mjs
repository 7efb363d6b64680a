/** Files of the session's directory: reading one, listing a folder, and asking what exists on the machine. */

import { constants } from 'node:fs';
import { access, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { PathError, expandHome, isInside, resolveInside } from './paths.mjs';

/** Largest file that is sent: as base64 in an acknowledgement it must fit into one WebSocket message of 32 MiB. */
export const MAX_READ = 20 * 1024 * 1024;

/** Most entries of a folder that are listed. */
export const MAX_ENTRIES = 10_000;

/** Most paths of one existence check. */
export const MAX_PATHS = 1000;

/**
 * @param {string} root the session's directory, resolved
 */
export function fileMethods(root) {
  return {
    async readFile({ path: wanted } = {}) {
      const file = await resolveInside(root, wanted);
      // O_NOFOLLOW: the path was resolved, a link at its end now would have been put there since.
      const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      try {
        const info = await handle.stat();
        if (info.isDirectory()) throw new PathError(`${wanted || '.'} is a directory.`);
        if (!info.isFile()) throw new PathError(`${wanted} is not a regular file.`);
        if (info.size > MAX_READ) throw new PathError(tooLarge(wanted, info.size));
        const content = await handle.readFile();
        if (content.length > MAX_READ) throw new PathError(tooLarge(wanted, content.length));
        return { success: true, content: content.toString('base64'), size: content.length };
      } finally {
        await handle.close();
      }
    },

    async listDirectory({ path: wanted = '' } = {}) {
      const folder = await resolveInside(root, wanted);
      const found = await readdir(folder, { withFileTypes: true }).catch((error) => {
        if (error.code === 'ENOTDIR') throw new PathError(`${wanted} is not a directory.`);
        if (error.code === 'EACCES') throw new PathError(`No permission to read ${wanted || 'the directory'}.`);
        throw error;
      });
      const entries = [];
      for (let i = 0; i < Math.min(found.length, MAX_ENTRIES); i += 64) {
        const some = found.slice(i, Math.min(i + 64, MAX_ENTRIES));
        entries.push(...(await Promise.all(some.map((entry) => describe(root, folder, entry)))));
      }
      entries.sort((a, b) => (a.type === b.type ? compare(a.name, b.name) : a.type === 'directory' ? -1 : 1));
      return found.length > MAX_ENTRIES ? { success: true, entries, truncated: true } : { success: true, entries };
    },
  };
}

/**
 * Answers which paths exist on this machine. They may be anywhere: a person picks a directory to start a session in, and
 * no more than yes or no is told.
 * @param {string} base what relative paths are relative to
 * @param {unknown} paths
 * @returns {Promise<Record<string, boolean>>}
 */
export async function checkPaths(base, paths) {
  if (!Array.isArray(paths) || paths.some((one) => typeof one !== 'string')) {
    throw new PathError('"paths" must be an array of strings.');
  }
  if (paths.length > MAX_PATHS) throw new PathError(`"paths" may hold at most ${MAX_PATHS} paths.`);
  const exists = (one) =>
    one === '' || one.includes('\0')
      ? false
      : access(expandHome(one, base)).then(
          () => true,
          () => false,
        );
  return Object.fromEntries(await Promise.all(paths.map(async (one) => [one, await exists(one)])));
}

/** An entry as the hub knows it. A link counts as what it leads to, unless it leads outside or nowhere. */
async function describe(root, folder, entry) {
  const full = path.join(folder, entry.name);
  if (entry.isSymbolicLink()) {
    const target = await realpath(full).catch(() => null);
    if (target === null || !isInside(root, target)) return { name: entry.name, type: 'file', link: true };
    return { ...sized(entry.name, await stat(target).catch(() => null)), link: true };
  }
  if (entry.isDirectory()) return { name: entry.name, type: 'directory' };
  return sized(entry.name, await stat(full).catch(() => null));
}

function sized(name, info) {
  if (info?.isDirectory()) return { name, type: 'directory' };
  return info?.isFile() ? { name, type: 'file', size: info.size } : { name, type: 'file' };
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function tooLarge(name, size) {
  const megabytes = (size / 1024 / 1024).toFixed(1);
  return `${name} is too large to send: ${megabytes} MB, at most ${MAX_READ / 1024 / 1024} MB.`;
}
