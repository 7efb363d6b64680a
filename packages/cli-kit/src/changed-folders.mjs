/** Groups changed files by folder, so that a list of them has a bounded number of entries. */

/**
 * @typedef {{path: string, status: string, index: string, worktree: string, oldPath?: string}} ChangedFile
 * @typedef {ChangedFile & {count?: number}} Entry a file, or a folder with `count` files of the same status: its path ends with a slash
 */

/** A group of at least this many files is always replaced by its folder; a smaller one only if the list is too long. */
const MIN_GROUP_FILES = 20;

/**
 * Returns the files, sorted by path, if there are at most `max`. Otherwise replaces the files with the same status in one folder of
 * `base` by an entry of that folder: all groups of at least 20, then smaller ones until the list has at most `max` entries. The
 * list can still be longer, because files directly in `base` are never grouped. Folders come first.
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

/** Returns one entry for files of the same status: the deepest folder that has all of them. */
function toFolderEntry(files) {
  const [{ path: first, status, index, worktree }] = files;
  let end = first.lastIndexOf('/') + 1;
  for (const { path: name } of files) while (!name.startsWith(first.slice(0, end))) end = first.lastIndexOf('/', end - 2) + 1;
  return { path: first.slice(0, end), status, index, worktree, count: files.length };
}
