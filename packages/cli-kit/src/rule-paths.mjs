/** The paths that an approval for the session may cover. */

import { lstatSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { isInside } from './paths.mjs';

/**
 * Where an agent works. `root`: the session's directory, resolved; `protectedNames`: the names of files that configure an agent, in lower
 * case.
 * @typedef {{root: string, protectedNames: ReadonlySet<string>}} Place
 */

const INVISIBLE = /\p{C}/u;

/** Git takes a folder with this file for a repository, whose configuration may name programs. */
const REPOSITORY_FILE = 'head';

const isHidden = (/** @type {string} */ file) => file.split(path.sep).some((name) => name.startsWith('.'));

/**
 * Returns the path below the root of a file that is inside the session's directory after links are followed. The file may be missing.
 * @param {string} file an absolute path
 * @returns {string | null} empty for the root; null if the file is outside or hidden, or if the path has `..`
 */
export function visiblePath(file, { root }) {
  if (!path.isAbsolute(file) || INVISIBLE.test(file) || file.split(path.sep).includes('..')) return null;
  const written = path.normalize(file);
  const target = resolveLinks(written);
  if (target === null || !isInside(root, target)) return null;
  // The link itself may be hidden, and its target not.
  const writtenBelow = isInside(root, written) ? path.relative(root, written) : path.basename(written);
  const below = path.relative(root, target);
  return isHidden(writtenBelow) || isHidden(below) ? null : below;
}

/**
 * Whether a rule may cover changes of a file. Hidden files are excluded, because they contain settings of git and of agents, which can run
 * programs and change permissions. So are visible files that configure an agent, and all files of a session in a hidden folder, such as
 * `~/.claude`, and files that make a folder a repository.
 * @param {string} file an absolute path
 * @param {Place} place
 */
export function isChangeable(file, place) {
  const below = visiblePath(file, place);
  if (below === null || below === '' || isHidden(path.basename(place.root))) return false;
  // File systems that ignore case take some letters for ASCII letters, such as `ſ` for `s`.
  const names = [file, below].map((each) => path.basename(each).normalize('NFKC').toLowerCase());
  return names.every((name) => name !== REPOSITORY_FILE && !place.protectedNames.has(name));
}

/** Returns the path of a file without links. The file and its folders may be missing. Returns null if a link has no target. */
function resolveLinks(file) {
  for (let at = file, rest = []; ; rest = [path.basename(at), ...rest], at = path.dirname(at)) {
    try {
      lstatSync(at);
    } catch (error) {
      if (error.code !== 'ENOENT' || at === path.dirname(at)) return null;
      continue;
    }
    try {
      return path.join(realpathSync(at), ...rest);
    } catch {
      return null;
    }
  }
}
