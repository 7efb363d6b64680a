/** Groups changed files by folder, so that a list of changes stays short. */

/**
 * @typedef {{path: string, status: string, index: string, worktree: string, oldPath?: string}} ChangedFile
 * @typedef {ChangedFile & {count?: number}} Entry a file, or a folder with `count` files of the same status. The path of a folder ends
 *   with a slash
 */

/** A group of at least this many files is always replaced by its folder. A smaller group is replaced only if the list is too long. */
const MIN_GROUP_FILES = 20;

/**
 * Returns at most about `max` entries for a list of files, folders first, then by path. If there are more files than `max`, files
 * with the same status in one folder of `base` become one entry:
 * 1. all groups of at least {@link MIN_GROUP_FILES} files;
 * 2. smaller groups, largest first, until the list has at most `max` entries.
 *
 * The list can still be longer than `max`, because files directly in `base` are never grouped.
 * @param {ChangedFile[]} files
 * @param {string} base path of a folder, empty for the root
 * @param {number} max
 * @returns {Entry[]}
 */
export function groupByFolder(files, base, max) {
  const start = base === '' ? 0 : base.replace(/\/+$/, '').length + 1;
  const entries = [];
  const groups = new Map();
  for (const file of files) {
    const end = file.path.indexOf('/', start);
    if (end < 0) {
      entries.push(file);
      continue;
    }
    const key = JSON.stringify([file.path.slice(0, end), file.status, file.index, file.worktree]);
    const group = groups.get(key);
    if (group) group.push(file);
    else groups.set(key, [file]);
  }
  let excess = files.length - max;
  for (const group of [...groups.values()].sort((a, b) => b.length - a.length)) {
    if (files.length > max && group.length > 1 && (excess > 0 || group.length >= MIN_GROUP_FILES)) {
      excess -= group.length - 1;
      entries.push(toFolderEntry(group));
    } else {
      for (const file of group) entries.push(file);
    }
  }
  const rank = ({ count }) => (count === undefined ? 1 : 0);
  return entries.sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

/** Returns one entry for files of the same status. Its path is the deepest folder that contains all the files. */
function toFolderEntry(files) {
  const [{ path: first, status, index, worktree }] = files;
  let end = first.lastIndexOf('/') + 1;
  for (const { path: name } of files) while (!name.startsWith(first.slice(0, end))) end = first.lastIndexOf('/', end - 2) + 1;
  return { path: first.slice(0, end), status, index, worktree, count: files.length };
}
