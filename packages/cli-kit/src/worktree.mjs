/**
 * Git worktrees: a separate checkout and branch for a session.
 *
 * Worktrees are created in the folder `.worktrees` of the repository. The folder is inside the served directory, and git ignores the
 * folder. A worktree is not removed when the session ends, because the worktree contains the user's work.
 */

import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { git, gitText } from './git.mjs';
import { pageOf } from './pages.mjs';
import { PathError, isInside, resolveInside } from './paths.mjs';

const FOLDER = '.worktrees';

/** Limit on the branches in one answer. */
const MAX_BRANCHES = 200;

/** Limit on the length of a branch's name, in characters. */
const MAX_BRANCH_LENGTH = 250;

/** Time limit for creating a worktree: git writes every file of the repository. */
const ADD_TIMEOUT_MS = 10 * 60_000;

/** Disables hooks, because the user did not approve the programs that the hooks of a repository run. */
const NO_HOOKS = ['-c', 'core.hooksPath=/dev/null'];

const LOCAL = 'refs/heads/';
const REMOTE = 'refs/remotes/';

/** @type {Promise<unknown>} */
let lastOpen = Promise.resolve();

/**
 * Opens the worktree with this name. If there is none, creates the worktree and a branch of the same name, from the commit of `branch`,
 * or from the commit that is checked out in `directory`.
 * @param {{directory: string, directories: string[], name: unknown, branch?: unknown}} options `directory`: resolved, in a repository;
 *   `directories`: the served directories, resolved; `branch`: a local branch, or a remote branch such as `origin/main`
 * @returns {Promise<string>} the directory in the worktree that corresponds to `directory`
 * @throws {Error} whose message is sent to the web client
 */
export function openWorktree({ directory, directories, name, branch }) {
  const opened = lastOpen.then(() => open(directory, directories, checkName(name), branch));
  lastOpen = opened.catch(() => {});
  return opened;
}

/**
 * Returns the branches of a directory's repository: the local branches, then the remote branches, each with the newest commits first. `current`:
 * the branch that is checked out in the directory. `more`: how many branches were left out.
 * @param {{directory: string, directories: string[]}} options as for {@link openWorktree}
 * @returns {Promise<{current?: string, branches: string[], more?: number}>}
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
  const { entries, moreField } = pageOf([...(await list(LOCAL)), ...(await list(REMOTE))], 0, MAX_BRANCHES);
  return { ...(current === '' ? {} : { current }), branches: entries, ...moreField };
}

/**
 * Describes the linked worktree that contains a directory, for the session metadata.
 * @param {string} directory resolved
 * @returns {Promise<{basePath: string, branch: string, name: string, worktreePath: string, createdAt: number} | undefined>}
 *   undefined outside of a linked worktree; `branch`: `HEAD` if no branch is checked out
 */
export async function describeWorktree(directory) {
  try {
    const { top, base, isLinked } = await locate(directory);
    if (!isLinked) return undefined;
    const branch = await gitText(['branch', '--show-current'], top);
    const { mtimeMs } = await stat(path.join(top, '.git'));
    return {
      basePath: base,
      branch: branch || 'HEAD',
      name: path.basename(top),
      worktreePath: top,
      createdAt: Math.round(mtimeMs),
    };
  } catch {
    // The directory is in no repository, or git is not installed.
    return undefined;
  }
}

function checkName(name) {
  if (typeof name !== 'string' || name === '') throw new PathError('"worktreeName" is missing.');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) || name.includes('..') || /(\.|\.lock)$/i.test(name)) {
    throw new PathError(
      '"worktreeName" must be 1 to 64 letters, digits, ".", "_" and "-", start with a letter or digit, not contain ".."' +
        ' and not end with "." or ".lock": it becomes the name of a branch and a folder.',
    );
  }
  return name;
}

async function open(directory, directories, name, branch) {
  const { top, base, prefix } = await locateServed(directory, directories);
  const start = branch === undefined ? 'HEAD' : await findBranch(top, branch);
  const folder = await ensureFolder(base);
  const worktree = path.join(folder, name);
  if (!(await isWorktree(base, worktree))) await addWorktree(top, worktree, name, start);
  const inside = await resolveInside(worktree, prefix).catch(() => worktree);
  return (await isDirectory(inside)) ? inside : worktree;
}

/** Returns the result of {@link locate} for a repository inside the served directories. */
async function locateServed(directory, directories) {
  const located = await locate(directory);
  if (!directories.some((allowed) => isInside(allowed, located.base))) {
    throw new PathError(`The repository ${located.base} is outside the directories this machine serves.`);
  }
  return located;
}

/** Finds the checkout that contains a directory (`top`), the repository's main checkout (`base`), and the path in `top` (`prefix`). */
async function locate(directory) {
  const output = await gitText(
    ['rev-parse', '--path-format=absolute', '--show-toplevel', '--git-dir', '--git-common-dir', '--show-prefix'],
    directory,
  );
  const [top, gitDir, commonDir, prefix = ''] = output.split('\n');
  // An older git prints the unknown option instead of an absolute path.
  if (!path.isAbsolute(top)) throw new Error('Worktrees need git 2.31 or newer.');
  const isLinked = gitDir !== commonDir;
  return { top, isLinked, prefix, base: isLinked ? (await listWorktrees(top))[0] : top };
}

/** Creates the folder for worktrees, with a `.gitignore` that makes git ignore the folder. Returns the path of the folder. */
async function ensureFolder(base) {
  const folder = await resolveInside(base, FOLDER, { mustExist: false, field: FOLDER });
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, '.gitignore'), '*\n', { flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  return folder;
}

async function isWorktree(base, worktree) {
  return (await listWorktrees(base)).includes(worktree) && isDirectory(worktree);
}

/** Returns the full name of a branch. A full name cannot be an option of git or an expression such as `main~1`. */
async function findBranch(top, branch) {
  const isValid =
    typeof branch === 'string' &&
    branch.length <= MAX_BRANCH_LENGTH &&
    !/^-|[\0\n]/.test(branch) &&
    (await gitSucceeds(['check-ref-format', `${LOCAL}${branch}`], top));
  if (!isValid) throw new PathError(`"branch" must be the name of a branch, with at most ${MAX_BRANCH_LENGTH} characters.`);
  for (const full of [`${LOCAL}${branch}`, `${REMOTE}${branch}`]) {
    if (await gitSucceeds(['show-ref', '--verify', '--quiet', full], top)) return full;
  }
  throw new PathError(`"branch": the repository ${top} has no branch ${branch}.`);
}

async function addWorktree(top, worktree, name, start) {
  if (!(await gitSucceeds(['rev-parse', '--verify', '--quiet', `${start}^{commit}`], top))) {
    throw new Error(`The repository ${top} has no commits. Make a commit first: a worktree starts from one.`);
  }
  if (await gitSucceeds(['show-ref', '--verify', '--quiet', `refs/heads/${name}`], top)) {
    throw new Error(`The branch ${name} already exists, but has no worktree. Use another name.`);
  }
  const args = [...NO_HOOKS, 'worktree', 'add', '--quiet', '--no-track', '-b', name, worktree, start];
  await gitText(args, top, { timeoutMs: ADD_TIMEOUT_MS });
}

/** Returns the paths of the repository's checkouts, the main checkout first. */
async function listWorktrees(cwd) {
  const output = await gitText(['worktree', 'list', '--porcelain'], cwd);
  return [...output.matchAll(/^worktree (.*)$/gm)].map(([, found]) => found);
}

async function gitSucceeds(args, cwd) {
  return (await git(args, cwd)).code === 0;
}

async function isDirectory(name) {
  return (await stat(name).catch(() => null))?.isDirectory() === true;
}
