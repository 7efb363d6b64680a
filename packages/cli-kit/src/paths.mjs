/** Checks of paths from the hub, which must not lead outside the served directory. */

import { realpath, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

/** A refused path. The message and the code are sent to the web client. */
export class PathError extends Error {
  /**
   * @param {string} message
   * @param {string} [code]
   */
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

/** Whether `child` is `parent` or below `parent`. Both must be absolute and resolved. */
export function isInside(parent, child) {
  const relative = path.relative(parent, child);
  return relative === '' || (relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative));
}

/**
 * Checks the syntax of a relative path, without reading the disk.
 * @param {unknown} value
 * @param {string} [field] the name of the value in error messages
 * @returns {string} the same path
 * @throws {PathError} if the path is not relative, or contains `..` or NUL
 */
export function checkRelative(value, field = 'path') {
  if (typeof value !== 'string') throw new PathError(`"${field}" must be a string.`);
  if (value.includes('\0')) throw new PathError(`"${field}" must not contain NUL.`);
  if (path.isAbsolute(value) || (path.win32.isAbsolute(value) && process.platform === 'win32')) {
    throw new PathError(`"${field}" must be relative to the session's directory.`);
  }
  if (value.split(/[/\\]/).includes('..')) throw new PathError(`"${field}" must not contain "..".`);
  return value;
}

/**
 * Resolves a relative path inside a root, following symbolic links.
 * @param {string} root an absolute directory, resolved with `realpath`
 * @param {unknown} value path from the hub; empty means the root
 * @param {{mustExist?: boolean, field?: string}} [options] with `mustExist: false`, a path that does not exist (such as a
 *   deleted file) is checked through its nearest existing directory
 * @returns {Promise<string>} absolute path without symbolic links
 * @throws {PathError} when the path leads outside the root
 */
export async function resolveInside(root, value, { mustExist = true, field = 'path' } = {}) {
  const relative = checkRelative(value, field);
  const joined = path.resolve(root, relative);
  const resolved = await realpath(joined).catch((error) => error);
  if (typeof resolved === 'string') return requireInside(root, resolved, relative);
  if (resolved.code !== 'ENOENT' && resolved.code !== 'ENOTDIR') {
    throw new PathError(`Cannot open ${relative}: ${resolved.code === 'ELOOP' ? 'too many symbolic links' : resolved.code}.`);
  }
  if (mustExist && relative.includes('\uFFFD')) throw new PathError(`The name ${relative} is not UTF-8. Rename the file to open it.`);
  if (mustExist) throw new PathError(`No such file or directory: ${relative}`);
  let folder = path.dirname(joined);
  for (;;) {
    const real = await realpath(folder).catch(() => null);
    if (real !== null) {
      requireInside(root, real, relative);
      return joined;
    }
    if (folder === path.dirname(folder)) throw new PathError(`No such file or directory: ${relative}`);
    folder = path.dirname(folder);
  }
}

function requireInside(root, resolved, relative) {
  if (!isInside(root, resolved)) throw new PathError(`${relative} leads outside the session's directory.`);
  return resolved;
}

/**
 * Resolves the `cwd` of an RPC: the session's `metadata.path`, an absolute path. Returns the root if there is no `cwd`.
 * @throws {PathError} when `cwd` is not the root or a directory below the root
 */
export async function resolveCwd(root, cwd) {
  if (cwd === undefined || cwd === null || cwd === '') return root;
  if (typeof cwd !== 'string' || cwd.includes('\0')) throw new PathError('"cwd" must be a path.');
  const resolved = await realpath(path.resolve(root, cwd)).catch(() => null);
  if (resolved === null) throw new PathError(`No such directory: ${cwd}`);
  if (!isInside(root, resolved)) throw new PathError(`${cwd} is outside the session's directory.`);
  return resolved;
}

/** Expands a leading `~` and makes the path absolute against `base`. */
function expandHome(text, base) {
  if (text === '~') return homedir();
  if (text.startsWith('~/')) return path.join(homedir(), text.slice(2));
  return path.resolve(base, text);
}

/**
 * Finds a directory in which sessions may be started.
 * @param {string[]} directories resolved paths of the served directories
 * @param {string} text absolute, relative to the first directory, or with a leading `~`
 * @returns {Promise<{path: string, isServed: boolean, info: import('node:fs').Stats | null}>} `path`: without symbolic links;
 *   `info`: null if the path does not exist or is not served, so that a client learns nothing about other paths
 */
export async function findServedDirectory(directories, text) {
  const resolved = await resolveExisting(expandHome(text, directories[0]));
  const isServed = directories.some((directory) => isInside(directory, resolved));
  return { path: resolved, isServed, info: isServed ? await stat(resolved).catch(() => null) : null };
}

/** Resolves the symbolic links in the existing part of an absolute path. */
async function resolveExisting(full) {
  const resolved = await realpath(full).catch(() => null);
  const parent = path.dirname(full);
  if (resolved !== null || parent === full) return resolved ?? full;
  return path.join(await resolveExisting(parent), path.basename(full));
}
