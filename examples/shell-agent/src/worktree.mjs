/**
 * Git worktrees: a session may get a checkout and a branch of its own, beside the directory it was asked for in.
 *
 * They lie in the folder `.worktrees` of their repository: so in what the machine serves already, and git does not see them
 * as changes there. They are kept when their session ends: what is in them is the person's.
 */

import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { git, gitError } from './git.mjs';
import { PathError, isInside, resolveInside } from './paths.mjs';

const FOLDER = '.worktrees';

/** How long git may take to make one: a large repository has much to write. */
const MAKE_MS = 10 * 60_000;

/** Making a worktree starts no program of the repository's choice, as nobody was asked about one. */
const NO_HOOKS = ['-c', 'core.hooksPath=/dev/null'];

/** Those who ask at the same time are served one after another: the second finds what the first has made. */
let turn = Promise.resolve();

/**
 * Makes a worktree with a branch of its own, both of the name given, from what is checked out in `directory`; or takes the
 * one that was made under this name before.
 * @param {{directory: string, directories: string[], name: unknown}} options `directory`: resolved, in a repository;
 *   `directories`: what the machine serves, resolved
 * @returns {Promise<string>} the directory in the worktree that corresponds to `directory`
 * @throws {Error} with a sentence for the person who asked
 */
export function openWorktree({ directory, directories, name }) {
  const opened = turn.then(() => open(directory, directories, checkName(name)));
  turn = opened.catch(() => {});
  return opened;
}

/**
 * The linked worktree that a directory lies in, as session metadata shows it.
 * @param {string} directory resolved
 * @returns {Promise<{basePath: string, branch: string, name: string, worktreePath: string, createdAt: number} | undefined>}
 *   undefined for any other directory; `branch` is `HEAD` when none is checked out
 */
export async function describeWorktree(directory) {
  try {
    const place = await locate(directory);
    if (!place.linked) return undefined;
    const branch = await text(['branch', '--show-current'], place.top);
    const { mtimeMs } = await stat(path.join(place.top, '.git'));
    return {
      basePath: place.base,
      branch: branch || 'HEAD',
      name: path.basename(place.top),
      worktreePath: place.top,
      createdAt: Math.round(mtimeMs),
    };
  } catch {
    // No repository, or no git: no worktree then.
    return undefined;
  }
}

function checkName(name) {
  if (typeof name !== 'string' || name === '') throw new PathError('"worktreeName" is missing.');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) || name.includes('..') || /(\.|\.lock)$/i.test(name)) {
    throw new PathError(
      '"worktreeName" becomes a branch and a folder: 1 to 64 letters, digits, ".", "_" and "-", beginning with a letter' +
        ' or digit, without ".." in it and without "." or ".lock" at its end.',
    );
  }
  return name;
}

async function open(directory, directories, name) {
  const { top, base, prefix } = await locate(directory);
  if (!directories.some((allowed) => isInside(allowed, base))) {
    throw new PathError(`The repository ${base} is outside the directories this machine serves.`);
  }
  const folder = await ownFolder(base);
  const worktree = path.join(folder, name);
  if (!(await isWorktree(base, worktree))) await add(top, worktree, name);
  const inside = await resolveInside(worktree, prefix).catch(() => worktree);
  return (await isDirectory(inside)) ? inside : worktree;
}

/** Where a directory lies: its checkout, the repository's main one (`base`), and the path inside. */
async function locate(directory) {
  const found = await text(
    ['rev-parse', '--path-format=absolute', '--show-toplevel', '--git-dir', '--git-common-dir', '--show-prefix'],
    directory,
  );
  const [top, own, common, prefix = ''] = found.split('\n');
  if (!path.isAbsolute(top)) throw new Error('Worktrees need git 2.31 or newer.');
  const linked = own !== common;
  return { top, linked, prefix, base: linked ? (await worktrees(top))[0] : top };
}

/** The folder for worktrees, made when it is not there; it hides itself from git. */
async function ownFolder(base) {
  const folder = await resolveInside(base, FOLDER, { mustExist: false, field: FOLDER });
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, '.gitignore'), '*\n', { flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  return folder;
}

async function isWorktree(base, worktree) {
  return (await worktrees(base)).includes(worktree) && isDirectory(worktree);
}

async function add(top, worktree, name) {
  if (!(await succeeds(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], top))) {
    throw new Error(`The repository ${top} has no commit yet: a worktree needs one to start from.`);
  }
  if (await succeeds(['show-ref', '--verify', '--quiet', `refs/heads/${name}`], top)) {
    throw new Error(`There is a branch ${name} already, but no worktree of that name. Take another name.`);
  }
  const args = [...NO_HOOKS, 'worktree', 'add', '--quiet', '--no-track', '-b', name, worktree, 'HEAD'];
  await text(args, top, { timeoutMs: MAKE_MS });
}

/** Paths of the repository's checkouts, the main one first. */
async function worktrees(cwd) {
  const list = await text(['worktree', 'list', '--porcelain'], cwd);
  return [...list.matchAll(/^worktree (.*)$/gm)].map(([, found]) => found);
}

async function succeeds(args, cwd) {
  return (await git(args, cwd)).code === 0;
}

/** What git prints. @throws {Error} with its reason when it fails */
async function text(args, cwd, options) {
  const result = await git(args, cwd, options);
  if (result.code !== 0) throw new Error(gitError(result, cwd));
  return result.stdout.toString('utf8').replace(/\n$/, '');
}

async function isDirectory(name) {
  return (await stat(name).catch(() => null))?.isDirectory() === true;
}
