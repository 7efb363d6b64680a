/** RPC methods for git: status, diffs, and the number of changed lines per file. */

import { posix } from 'node:path';
import { mapInBatches } from './batches.mjs';
import { groupByFolder } from './changed-folders.mjs';
import { gitOutput, gitText, pathspecOf } from './git.mjs';
import { DIFF, diffFile } from './git-diff.mjs';
import { parseNumstat, parseStatus } from './git-output.mjs';
import { pageOf } from './pages.mjs';
import { checkRelative, resolveCwd, resolveInside } from './paths.mjs';
import { findCheckout, findRepositories, readRepository } from './repositories.mjs';

/** Limit on the files and folders in one answer of `gitStatus`. */
const MAX_STATUS_ENTRIES = 500;

/** Limit on the repositories in one answer. */
const MAX_REPOSITORIES = 50;

/** How many git processes run at a time. */
const GIT_PROCESSES = 4;

/** Limit on the files in one answer of `gitDiffNumstat`. */
const MAX_COUNTED_FILES = 5000;

/** Limit on the output of `git status` in bytes. The answer to the hub is far smaller. */
const MAX_STATUS_OUTPUT = 64 * 1024 * 1024;

/**
 * The answer of `gitStatus` and `gitDiffNumstat`. An answer with `error` has no `files`.
 * @template File
 * @typedef {{success: boolean, error?: string, files?: File[], more?: number}} Answer
 */

/**
 * `repository`: the entry is a folder with a repository of its own. In a directory that is in no repository, `branch` is the branch of the
 * repository and `count` the number of its changed files.
 * @typedef {import('./changed-folders.mjs').Entry & {repository?: true, branch?: string}} Entry
 */

/**
 * @param {string} root the session's directory, resolved
 */
export function gitMethods(root) {
  return {
    /**
     * Returns the changed files. If there are many files, the files of one folder with the same status are one entry: the entry's path
     * ends with a slash, and its `count` is the number of files. `filePath`: returns only the files of this folder. `offset`: how many
     * entries to skip. `more`: how many entries follow this answer. If the folder is in no repository, the entries are the repositories
     * below.
     * @param {{cwd?: string, filePath?: string, offset?: number}} [params]
     * @returns {Promise<Answer<Entry> & {branch?: string, detached?: boolean, upstream?: string, ahead?: number, behind?: number}>}
     */
    async gitStatus({ cwd, filePath = '', offset = 0 } = {}) {
      const directory = await resolveCwd(root, cwd);
      await resolveInside(directory, filePath, { mustExist: false, field: 'filePath' });
      const folder = normalize(filePath);
      const checkout = await findCheckout(directory, folder);
      if ('error' in checkout) return listRepositories(directory, folder, offset, checkout.error);
      const { base } = checkout;
      const inner = folder.slice(base.length);
      const { branch, oid, detached, files, ...upstreamFields } = await readStatus(checkout, inner);
      const page = pageOf(groupByFolder(files, inner, MAX_STATUS_ENTRIES), offset, MAX_STATUS_ENTRIES);
      return {
        success: true,
        branch: branch ?? (oid ? oid.slice(0, 12) : 'HEAD'),
        detached,
        ...upstreamFields,
        files: page.entries.map((entry) => withBase(base, entry)),
        ...page.moreField,
      };
    },

    /**
     * @param {{cwd?: string, staged?: boolean}} [params]
     * @returns {Promise<Answer<ReturnType<typeof parseNumstat>[number]>>}
     */
    async gitDiffNumstat({ cwd, staged = false } = {}) {
      const directory = await resolveCwd(root, cwd);
      const args = [...DIFF, '--numstat', '-z', ...(staged ? ['--cached'] : []), '--', pathspecOf('')];
      const count = async ({ cwd, base }) => parseNumstat(await gitOutput(args, cwd)).map((file) => withBase(base, file));
      const checkout = await findCheckout(directory, '');
      const repositories = 'error' in checkout ? (await findRepositories(directory, '')).slice(0, MAX_REPOSITORIES) : [];
      if ('error' in checkout && repositories.length === 0) return { success: false, error: checkout.error };
      const counts =
        'error' in checkout
          ? await mapInBatches(repositories, async (name) => (await readRepository(directory, name, count)) ?? [], GIT_PROCESSES)
          : [await count(checkout)];
      const { entries: files, moreField } = pageOf(counts.flat(), 0, MAX_COUNTED_FILES);
      return { success: true, files, ...moreField };
    },

    /** @param {{cwd?: string, filePath?: string, staged?: boolean}} [params] */
    async gitDiffFile({ cwd, filePath = '', staged = false } = {}) {
      const directory = await resolveCwd(root, cwd);
      const name = normalize(checkRelative(filePath, 'filePath'));
      // git does not follow a link. So only the folder of a link must be inside of the directory.
      await resolveInside(directory, posix.dirname(name), { mustExist: false, field: 'filePath' });
      const checkout = await findCheckout(directory, posix.dirname(name));
      if ('error' in checkout) return { success: false, error: checkout.error };
      if (name === '') return { success: false, error: '"filePath" must name a file.' };
      return { success: true, diff: await diffFile(checkout.cwd, name.slice(checkout.base.length), staged) };
    },
  };
}

/** Returns a relative path without `.` segments. Empty for the directory itself. */
function normalize(name) {
  const normal = posix.normalize(name);
  return normal === '.' || normal === './' ? '' : normal;
}

/** @param {import('./repositories.mjs').Checkout} checkout */
async function readStatus({ cwd, prefix }, folder) {
  const args = ['status', '--porcelain=v2', '--branch', '--untracked-files=all', '-z', '--', pathspecOf(folder)];
  return parseStatus(await gitText(args, cwd, { maxOutputBytes: MAX_STATUS_OUTPUT }), prefix);
}

/** Returns an entry with paths that are relative to the session's directory. */
function withBase(base, entry) {
  return { ...entry, path: base + entry.path, ...(entry.oldPath === undefined ? {} : { oldPath: base + entry.oldPath }) };
}

/** Answers `gitStatus` for a folder that is in no repository. `error`: the answer if there is no repository below the folder. */
async function listRepositories(directory, folder, offset, error) {
  const found = await findRepositories(directory, folder === '' ? '' : `${folder.replace(/\/$/, '')}/`);
  if (found.length === 0) return { success: false, error };
  const { entries, moreField } = pageOf(found, offset, MAX_REPOSITORIES);
  /** @returns {Promise<Entry>} */
  const describe = async (name) => {
    const status = await readRepository(directory, name, (checkout) => readStatus(checkout, ''));
    const fields = status === null ? {} : { branch: status.branch ?? 'HEAD', count: status.files.length };
    return { path: name, status: 'repository', index: '?', worktree: '?', repository: true, ...fields };
  };
  const files = await mapInBatches(entries, describe, GIT_PROCESSES);
  return { success: true, files, ...moreField };
}
