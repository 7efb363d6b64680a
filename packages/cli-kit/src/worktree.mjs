/**
 * Git worktrees: a separate checkout and branch for a session.
 *
 * Worktrees are created in the folder `.worktrees` of the main checkout, or of another checkout if only that is served. The folder is inside
 * the served directory, and git ignores the folder. A worktree is not removed when the session ends, because the worktree contains the
 * user's work.
 */

import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describeGitError, git, gitText } from './git.mjs';
import { pageOf } from './pages.mjs';
import { PathError, isInside, resolveInside } from './paths.mjs';

const FOLDER = '.worktrees';

/** Limit on the branches in one answer. */
const MAX_BRANCHES = 200;

/** Limit on the length of a branch's name, in characters. */
const MAX_BRANCH_LENGTH = 250;

/** Limit on the length of a worktree's name, in bytes. A file system allows 255 bytes for a name. */
const MAX_NAME_BYTES = 200;

/** Time limit for creating a worktree: git writes every file of the repository. */
const ADD_TIMEOUT_MS = 10 * 60_000;

const LOCAL = 'refs/heads/';
const REMOTE = 'refs/remotes/';

/** @type {Promise<unknown>} */
let lastOpen = Promise.resolve();

/**
 * Opens the worktree with this name. If there is none, creates the worktree for the branch of the same name. If there is no such branch,
 * creates the branch from the commit of `branch`, or from the commit that is checked out in `directory`.
 * @param {{directory: string, directories: string[], name: unknown, branch?: unknown}} options `directory`: resolved, in a repository;
 *   `directories`: the served directories, resolved; `branch`: a local branch, or a remote branch such as `origin/main`
 * @returns {Promise<string>} the directory in the worktree that corresponds to `directory`
 * @throws {Error} whose message is sent to the web client
 */
export function openWorktree({ directory, directories, name, branch }) {
  const opened = lastOpen.then(() => open(directory, directories, name, branch));
  lastOpen = opened.catch(() => {});
  return opened;
}

/**
 * Returns the branches of a directory's repository: the local branches, then the remote branches, each with the newest commits first. `current`:
 * the branch that is checked out in the directory. `available`: the listed local branches that no checkout has; each can be the name of a
 * worktree. `more`: how many branches were left out.
 * @param {{directory: string, directories: string[]}} options as for {@link openWorktree}
 * @returns {Promise<{current?: string, branches: string[], available: string[], more?: number}>}
 * @throws {Error} whose message is sent to the web client
 */
export async function listBranches({ directory, directories }) {
  const { top } = await locateServed(directory, directories);
  const current = await gitText(['branch', '--show-current'], top);
  const list = async (prefix) => {
    const output = await gitText(['for-each-ref', '--sort=-committerdate', '--format=%(refname) %(symref)', prefix], top);
    // `origin/HEAD` is a symbolic name of another branch.
    return [...output.matchAll(/^(\S+) $/gm)].map(([, name = '']) => name.slice(prefix.length));
  };
  const [local, remote, checkouts] = [await list(LOCAL), await list(REMOTE), await listCheckouts(top)];
  const { entries, moreField } = pageOf([...local, ...remote], 0, MAX_BRANCHES);
  const checkedOut = new Set(checkouts.map((checkout) => checkout.branch));
  const available = entries.slice(0, local.length).filter((name) => !checkedOut.has(`${LOCAL}${name}`));
  return { ...(current === '' ? {} : { current }), branches: entries, available, ...moreField };
}

/**
 * Describes the linked worktree that contains a directory, for the session metadata.
 * @param {string} directory resolved
 * @returns {Promise<{basePath: string, branch: string, name: string, worktreePath: string, createdAt: number} | undefined>}
 *   undefined outside of a linked worktree; `branch`: `HEAD` if no branch is checked out
 */
export async function describeWorktree(directory) {
  try {
    const { top, roots, isLinked } = await locate(directory);
    if (!isLinked) return undefined;
    const branch = await gitText(['branch', '--show-current'], top);
    const { mtimeMs } = await stat(path.join(top, '.git'));
    return {
      basePath: roots[0] ?? top,
      branch: branch || 'HEAD',
      name: top.split(`/${FOLDER}/`)[1] ?? path.basename(top),
      worktreePath: top,
      createdAt: Math.round(mtimeMs),
    };
  } catch {
    // The directory is in no repository, or git is not installed.
    return undefined;
  }
}

/**
 * Returns the worktrees that were created for sessions of a directory's repository, by path, without the one that contains the directory.
 * @param {string} directory resolved
 * @returns {Promise<{path: string, branch: string}[]>} `branch`: `HEAD` if no branch is checked out
 * @throws {Error} outside of a repository
 */
export async function listWorktrees(directory) {
  const { top, roots } = await locate(directory);
  return (await listCheckouts(top))
    .filter((checkout) => !isInside(checkout.path, directory) && roots.some((root) => isInside(path.join(root, FOLDER), checkout.path)))
    .map((checkout) => ({ path: checkout.path, branch: checkout.branch?.slice(LOCAL.length) ?? 'HEAD' }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Removes a worktree. Its branch remains.
 * @param {string} directory in another checkout of the repository
 * @param {string} worktree
 * @throws {Error} if the worktree has changes that are not committed, or contains another worktree
 */
export async function removeWorktree(directory, worktree) {
  const { top } = await locate(directory);
  const inner = (await listCheckouts(top)).find((checkout) => checkout.path !== worktree && isInside(worktree, checkout.path));
  if (inner) throw new Error(`It contains the worktree ${inner.path}.`);
  const result = await git(['worktree', 'remove', worktree], top, { timeoutMs: ADD_TIMEOUT_MS });
  if (/modified or untracked files/.test(result.stderr)) throw new Error('It has changes that are not committed.');
  if (result.code !== 0) throw new Error(describeGitError(result, worktree));
}

async function checkName(name, cwd) {
  if (typeof name !== 'string' || name === '') throw new PathError('"worktreeName" is missing.');
  if (Buffer.byteLength(name) > MAX_NAME_BYTES || !(await isBranchName(name, cwd))) {
    throw new PathError(
      `"worktreeName" becomes the name of a branch and a folder: at most ${MAX_NAME_BYTES} bytes, without spaces, "..", "~^:?*[\\",` +
        ' "-" or "." at its start, and "." or ".lock" at its end.',
    );
  }
}

async function open(directory, directories, name, branch) {
  await checkName(name, directory);
  const located = await locateServed(directory, directories);
  const { top, base, prefix } = located;
  const start = branch === undefined ? 'HEAD' : await findBranch(top, branch);
  await ensureFolder(base);
  const worktree = await resolveInside(base, path.join(FOLDER, name), { mustExist: false, field: 'worktreeName' });
  const checkouts = await listCheckouts(top);
  const isOpen = checkouts.some((checkout) => checkout.path === worktree) && (await isDirectory(worktree));
  if (!isOpen && (await hasRef(top, `${LOCAL}${name}`))) await addForBranch(top, worktree, { name, branch, checkouts, directories });
  else if (!isOpen) await addWithNewBranch(top, worktree, name, start);
  const inside = await resolveInside(worktree, prefix).catch(() => worktree);
  return (await isDirectory(inside)) ? inside : worktree;
}

/** Returns the result of {@link locate}. `base`: the first of the `roots` that is inside of the served directories. */
async function locateServed(directory, directories) {
  const located = await locate(directory);
  const base = located.roots.find((root) => directories.some((allowed) => isInside(allowed, root)));
  if (base === undefined) throw new PathError(`The repository ${located.roots[0]} is outside the directories this machine serves.`);
  return { ...located, base };
}

/**
 * Finds the checkout that contains a directory (`top`), and the path in `top` (`prefix`). `roots`: the folders that may have the worktrees
 * of the repository, the best first. In the folder around a hidden bare repository, `top` is this folder.
 */
async function locate(directory) {
  const output = await gitText(
    ['rev-parse', '--path-format=absolute', '--is-inside-work-tree', '--git-dir', '--git-common-dir', '--show-prefix'],
    directory,
  );
  const [isInWorkTree = '', gitDir = '', commonDir = '', prefix = ''] = output.split('\n');
  // An older git prints the unknown option.
  if (!/^(true|false)$/.test(isInWorkTree)) throw new Error('Worktrees need git 2.31 or newer.');
  if (isInWorkTree === 'false' && isInside(commonDir, directory)) throw new Error(`There is no work tree in ${directory}.`);
  const top = isInWorkTree === 'true' ? await gitText(['rev-parse', '--show-toplevel'], directory) : directory;
  const isLinked = isInWorkTree === 'true' && gitDir !== commonDir;
  if (isInWorkTree === 'true' && !isLinked) return { top, isLinked, prefix, roots: [top] };
  const [main] = await listCheckouts(top);
  // The usual layout of a bare repository with worktrees: project/.bare, project/main, project/feature.
  const isHidden = path.basename(main.path).startsWith('.');
  const roots = main.isBare ? (isHidden ? [path.dirname(main.path), top] : [top]) : [main.path, top];
  return { top, isLinked, prefix, roots };
}

/** Creates the folder for worktrees, with a `.gitignore` that makes git ignore the folder. */
async function ensureFolder(base) {
  const folder = await resolveInside(base, FOLDER, { mustExist: false, field: FOLDER });
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, '.gitignore'), '*\n', { flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Returns the full name of a branch. A full name cannot be an option of git or an expression such as `main~1`. */
async function findBranch(top, branch) {
  const isValid = typeof branch === 'string' && branch.length <= MAX_BRANCH_LENGTH && (await isBranchName(branch, top));
  if (!isValid) throw new PathError(`"branch" must be the name of a branch, with at most ${MAX_BRANCH_LENGTH} characters.`);
  for (const full of [`${LOCAL}${branch}`, `${REMOTE}${branch}`]) {
    if (await hasRef(top, full)) return full;
  }
  throw new PathError(`"branch": the repository ${top} has no branch ${branch}.`);
}

async function isBranchName(name, cwd) {
  return !/^-|[\0\n]/.test(name) && (await git(['check-ref-format', `${LOCAL}${name}`], cwd)).code === 0;
}

async function hasRef(top, full) {
  return (await git(['show-ref', '--verify', '--quiet', full], top)).code === 0;
}

/** Creates the worktree of an existing branch, which git allows for one checkout. */
async function addForBranch(top, worktree, { name, branch, checkouts, directories }) {
  if (branch !== undefined) {
    throw new PathError(`"branch": the branch ${name} exists already, and is used as it is. Omit "branch", or use another name.`);
  }
  let isForgotten = false;
  for (const checkout of checkouts.filter((other) => other.branch === `${LOCAL}${name}`)) {
    // git still lists a checkout whose folder was deleted.
    isForgotten = !(await isDirectory(checkout.path));
    if (isForgotten) continue;
    const isServed = directories.some((allowed) => isInside(allowed, checkout.path));
    const place = isServed ? checkout.path : 'a directory that this machine does not serve';
    throw new Error(`The branch ${name} is checked out in ${place}. Start the session there, or use another name.`);
  }
  await add(top, [...(isForgotten ? ['--force'] : []), worktree, name]);
}

async function addWithNewBranch(top, worktree, name, start) {
  if ((await git(['rev-parse', '--verify', '--quiet', `${start}^{commit}`], top)).code !== 0) {
    throw new Error(`The repository ${top} has no commits to start from. Make a commit first, or choose a branch.`);
  }
  if (await hasRef(top, `${REMOTE}${name}`)) {
    throw new PathError(`"worktreeName": ${name} is a remote branch. Start from it with "branch", and use another name.`);
  }
  await add(top, ['--no-track', '-b', name, worktree, start]);
}

function add(top, args) {
  return gitText(['worktree', 'add', '--quiet', ...args], top, { timeoutMs: ADD_TIMEOUT_MS });
}

/** Returns the repository's checkouts, the main checkout first. `branch`: the full name; undefined if no branch is checked out. */
async function listCheckouts(cwd) {
  const output = await gitText(['worktree', 'list', '--porcelain'], cwd);
  return output.split('\n\n').map((record) => ({
    path: /^worktree (.*)$/m.exec(record)?.[1] ?? '',
    branch: /^branch (.*)$/m.exec(record)?.[1],
    isBare: /^bare$/m.test(record),
  }));
}

async function isDirectory(name) {
  return (await stat(name).catch(() => null))?.isDirectory() === true;
}
