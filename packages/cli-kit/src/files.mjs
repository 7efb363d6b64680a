/** RPC methods for files: read a file, and list a directory. Also checks which directories a machine serves. */

import { constants } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { mapInBatches } from './batches.mjs';
import { pageOf } from './pages.mjs';
import { PathError, findServedDirectory, isInside, resolveInside } from './paths.mjs';
import { findUpload } from './uploads.mjs';

/** The largest file that can be read. The file is sent as base64, in one WebSocket message of at most 32 MiB. */
export const MAX_READ_BYTES = 20 * 1024 * 1024;

/** Limit on the entries of a directory in one answer, and on the links that are resolved to sort a directory. */
const MAX_ENTRIES = 10_000;

/** Limit on the paths of one existence check. */
const MAX_PATHS = 1000;

/**
 * The relative path under which the uploads of a session are read (`uploadsPath` in docs/openapi.yaml). The hub forwards no path outside of the
 * session's directory.
 */
export const UPLOADS_PATH = '.uploads';

/**
 * @param {string} root the session's directory, resolved
 * @param {string} [uploads] the folder of the session's uploads
 */
export function fileMethods(root, uploads) {
  return {
    /** @param {{path?: unknown}} [params] */
    async readFile({ path: requestedPath } = {}) {
      const file = (await resolveUpload(uploads, requestedPath)) ?? (await resolveInside(root, requestedPath));
      // O_NOFOLLOW: refuses a link that was created after the path was resolved. O_NONBLOCK: a pipe must not block.
      const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      try {
        const info = await handle.stat();
        if (info.isDirectory()) throw new PathError(`${requestedPath || '.'} is a directory.`);
        if (!info.isFile()) throw new PathError(`${requestedPath} is not a regular file.`);
        if (info.size > MAX_READ_BYTES) throw new PathError(describeTooLarge(requestedPath, info.size));
        const content = await handle.readFile();
        if (content.length > MAX_READ_BYTES) throw new PathError(describeTooLarge(requestedPath, content.length));
        return { success: true, content: content.toString('base64'), size: content.length };
      } finally {
        await handle.close();
      }
    },

    /**
     * Returns a page of a directory's entries: directories first, then by name. `offset`: how many entries to skip; `more`: how many
     * entries follow this page.
     * @param {{path?: unknown, offset?: unknown}} [params]
     */
    async listDirectory({ path: requestedPath = '', offset = 0 } = {}) {
      const folder = await resolveInside(root, requestedPath);
      const allEntries = await readdir(folder, { withFileTypes: true }).catch((error) => {
        if (error.code === 'ENOTDIR') throw new PathError(`${requestedPath} is not a directory.`);
        if (error.code === 'EACCES') throw new PathError(`Permission denied: ${requestedPath || 'the directory'}.`);
        throw error;
      });
      // A link is sorted like its target, so links are resolved. Resolving very many links would exceed the hub's time limit.
      const links = allEntries.filter((entry) => entry.isSymbolicLink());
      const described = await describeEntries(root, folder, links.length > MAX_ENTRIES ? [] : links);
      const linkEntries = new Map(described.map((entry) => [entry.name, entry]));
      const rank = (entry) => (entry.isDirectory() || linkEntries.get(entry.name)?.type === 'directory' ? 0 : 1);
      allEntries.sort((a, b) => rank(a) - rank(b) || compare(a.name, b.name));
      const page = pageOf(allEntries, offset, MAX_ENTRIES);
      const entries = await describeEntries(root, folder, page.entries, linkEntries);
      return { success: true, entries, ...page.moreField, ...(page.moreField.more === undefined ? {} : { truncated: true }) };
    },
  };
}

/** Returns the upload that a path names, or undefined. */
async function resolveUpload(uploads, requestedPath) {
  if (uploads === undefined || typeof requestedPath !== 'string') return undefined;
  const [folder, name, ...rest] = requestedPath.split('/');
  if (folder !== UPLOADS_PATH || !name || rest.length > 0) return undefined;
  return (await findUpload(uploads, name))?.path;
}

/**
 * Returns for each path whether it is a directory in which sessions may be started. The web console checks the directory of a new
 * session. A path outside the served directories gives false, whether it exists or not.
 * @param {string[]} directories resolved paths of the served directories; a relative path is relative to the first
 * @param {unknown} paths
 * @returns {Promise<Record<string, boolean>>}
 */
export async function checkPaths(directories, paths) {
  if (!Array.isArray(paths) || paths.some((name) => typeof name !== 'string')) {
    throw new PathError('"paths" must be an array of strings.');
  }
  if (paths.length > MAX_PATHS) throw new PathError(`"paths" must have at most ${MAX_PATHS} entries, not ${paths.length}.`);
  const isDirectory = async (name) => {
    if (name === '' || name.includes('\0')) return false;
    return (await findServedDirectory(directories, name)).info?.isDirectory() ?? false;
  };
  return Object.fromEntries(await Promise.all(paths.map(async (name) => [name, await isDirectory(name)])));
}

/** Describes entries. `known`: entries that are already described, by name. */
function describeEntries(root, folder, found, known = new Map()) {
  return mapInBatches(found, (entry) => known.get(entry.name) ?? describeEntry(root, folder, entry));
}

/**
 * Returns a directory entry in the format of the hub's interface. A link has the type and size of its target. If the target is missing
 * or outside the served directory, the type is `file` and the size is missing.
 */
async function describeEntry(root, folder, entry) {
  const full = path.join(folder, entry.name);
  if (entry.isSymbolicLink()) {
    const target = await realpath(full).catch(() => null);
    if (target === null || !isInside(root, target)) return { name: entry.name, type: 'file', link: true };
    return { ...toEntry(entry.name, await stat(target).catch(() => null)), link: true };
  }
  if (entry.isDirectory()) return { name: entry.name, type: 'directory' };
  return toEntry(entry.name, await stat(full).catch(() => null));
}

function toEntry(name, info) {
  if (info?.isDirectory()) return { name, type: 'directory' };
  return info?.isFile() ? { name, type: 'file', size: info.size } : { name, type: 'file' };
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function describeTooLarge(name, size) {
  const megabytes = (size / 1024 / 1024).toFixed(1);
  return `${name} is too large to read: ${megabytes} MB; the limit is ${MAX_READ_BYTES / 1024 / 1024} MB.`;
}
