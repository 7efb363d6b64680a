/** RPC methods for git: status, diffs, and the number of changed lines per file. The methods run the installed `git`. */

import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { groupByFolder } from './changed-folders.mjs';
import { MAX_OUTPUT_BYTES, run } from './exec.mjs';
import { pageOf } from './pages.mjs';
import { resolveCwd, resolveInside } from './paths.mjs';

/** Options that disable the settings by which a repository can run programs, and the special meaning of characters in paths. */
const SAFE_OPTIONS = ['-c', 'core.fsmonitor=false', '-c', 'core.quotepath=false', '--no-pager', '--literal-pathspecs'];

/** Limit on the files and folders in one answer of `gitStatus`. */
const MAX_STATUS_ENTRIES = 500;

/** Limit on the files in one answer of `gitDiffNumstat`. */
const MAX_COUNTED_FILES = 5000;

/** Limit on the output of `git status` in bytes. The answer to the hub is far smaller. */
const MAX_STATUS_OUTPUT = 64 * 1024 * 1024;

const DIFF = ['diff', '--no-ext-diff', '--no-textconv', '--no-color', '--relative'];

/**
 * Runs git with safe options and a clean environment.
 * @param {string[]} args
 * @param {string} cwd
 * @param {{timeoutMs?: number, maxOutputBytes?: number}} [options]
 */
export async function git(args, cwd, options) {
  const env = { ...process.env, LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0' };
  // A process that a git hook started inherits these variables, which override the repository of `cwd`.
  for (const name of ['GIT_DIR', 'GIT_WORK_TREE', 'GIT_INDEX_FILE', 'GIT_PREFIX', 'GIT_EXTERNAL_DIFF']) delete env[name];
  const result = await run('git', [...SAFE_OPTIONS, ...args], { cwd, env, ...options });
  if (result.isTruncated)
    throw new Error(`The output of git is larger than ${(options?.maxOutputBytes ?? MAX_OUTPUT_BYTES) / 1024 / 1024} MB.`);
  return result;
}

/**
 * The answer of `gitStatus` and `gitDiffNumstat`. An answer with `error` has no `files`.
 * @template File
 * @typedef {{success: boolean, error?: string, files?: File[], more?: number}} Answer
 */

/** @typedef {import('./changed-folders.mjs').Entry} Entry */

/**
 * Returns why git failed, in one line.
 * @param {{code: number | null, stderr: string}} result `code`: null if git was killed
 * @param {string} cwd
 */
export function describeGitError({ code, stderr }, cwd) {
  if (/not a git repository/i.test(stderr)) return `Not a git repository: ${cwd}`;
  return stderr.split('\n')[0] || (code === null ? 'git was killed.' : `git failed with exit code ${code}.`);
}

const STATUS_BY_LETTER = { M: 'modified', T: 'typechange', A: 'added', D: 'deleted', R: 'renamed', C: 'copied', U: 'conflicted' };

/**
 * Parses `git status --porcelain=v2 --branch -z`.
 * @param {string} text NUL-separated records
 * @param {string} [prefix] the directory's path inside the repository, with a trailing slash. The returned paths do not have this prefix
 * @returns {{branch: string | null, oid: string | null, detached: boolean, upstream?: string, ahead?: number,
 *   behind?: number, files: {path: string, status: string, index: string, worktree: string, oldPath?: string}[]}}
 *   `index` and `worktree` are git's letters, `.` for unchanged
 */
export function parseStatus(text, prefix = '') {
  const result = { branch: null, oid: null, detached: false, files: [] };
  const withoutPrefix = (name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name);
  const records = text.split('\0');
  for (let i = 0; i < records.length; i += 1) {
    const record = records[i];
    const kind = record[0];
    if (kind === '#') {
      parseHeader(result, record);
    } else if (kind === '1') {
      result.files.push({ ...parseStatusLetters(record), path: withoutPrefix(textAfterFields(record, 8)) });
    } else if (kind === '2') {
      i += 1;
      const oldPath = withoutPrefix(records[i] ?? '');
      result.files.push({ ...parseStatusLetters(record), path: withoutPrefix(textAfterFields(record, 9)), oldPath });
    } else if (kind === 'u') {
      const { index, worktree } = parseStatusLetters(record);
      result.files.push({ status: 'conflicted', index, worktree, path: withoutPrefix(textAfterFields(record, 10)) });
    } else if (kind === '?') {
      result.files.push({ status: 'untracked', index: '?', worktree: '?', path: withoutPrefix(record.slice(2)) });
    }
  }
  result.files = result.files.map(({ path: name, status, ...others }) => ({ path: name, status, ...others }));
  return result;
}

function parseHeader(result, record) {
  const [, name, ...words] = record.split(' ');
  const value = words.join(' ');
  if (name === 'branch.oid') result.oid = value === '(initial)' ? null : value;
  if (name === 'branch.head') {
    result.detached = value === '(detached)';
    result.branch = result.detached ? null : value;
  }
  if (name === 'branch.upstream') result.upstream = value;
  if (name === 'branch.ab') {
    result.ahead = Number(words[0].slice(1));
    result.behind = Number(words[1].slice(1));
  }
}

/** Returns the status of a record. A rename, copy, addition or deletion in the index takes precedence over an edit in the worktree. */
function parseStatusLetters(record) {
  const index = record[2];
  const worktree = record[3];
  const letter = 'RCAD'.includes(index) && worktree !== 'D' ? index : worktree === '.' ? index : worktree;
  return { status: STATUS_BY_LETTER[letter] ?? 'modified', index, worktree };
}

/** Returns the text after the first `count` space-separated fields: a path, which may contain spaces. */
function textAfterFields(record, count) {
  let at = 0;
  for (let i = 0; i < count; i += 1) at = record.indexOf(' ', at) + 1;
  return record.slice(at);
}

/**
 * Parses `git diff --numstat -z`.
 * @param {string} text
 * @returns {{path: string, added: number, removed: number, binary?: true, oldPath?: string}[]}
 */
export function parseNumstat(text) {
  const files = [];
  const records = text.split('\0');
  for (let i = 0; i < records.length; i += 1) {
    const match = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(records[i]);
    if (!match) continue;
    const binary = match[1] === '-';
    const file = { path: match[3], added: binary ? 0 : Number(match[1]), removed: binary ? 0 : Number(match[2]) };
    if (binary) file.binary = true;
    if (file.path === '') {
      // A rename: the next two records are its old and new names.
      file.path = records[i + 2] ?? '';
      file.oldPath = records[i + 1] ?? '';
      i += 2;
    }
    files.push(file);
  }
  return files;
}

/**
 * @param {string} root the session's directory, resolved
 */
export function gitMethods(root) {
  return {
    /**
     * Returns the changed files. If there are many files, the files of one folder with the same status are one entry: the entry's path
     * ends with a slash, and its `count` is the number of files. `filePath`: returns only the files of this folder. `offset`: how many
     * entries to skip. `more`: how many entries follow this answer.
     * @param {{cwd?: string, filePath?: string, offset?: number}} [params]
     * @returns {Promise<Answer<Entry> & {branch?: string, detached?: boolean, upstream?: string, ahead?: number, behind?: number}>}
     */
    async gitStatus({ cwd, filePath = '', offset = 0 } = {}) {
      const directory = await resolveCwd(root, cwd);
      await resolveInside(directory, filePath, { mustExist: false, field: 'filePath' });
      const prefixResult = await git(['rev-parse', '--show-prefix'], directory);
      if (prefixResult.code !== 0) return { success: false, error: describeGitError(prefixResult, directory) };
      const status = await git(['status', '--porcelain=v2', '--branch', '--untracked-files=all', '-z', '--', filePath || '.'], directory, {
        maxOutputBytes: MAX_STATUS_OUTPUT,
      });
      if (status.code !== 0) return { success: false, error: describeGitError(status, directory) };
      const prefix = prefixResult.stdout.toString('utf8').replace(/\n$/, '');
      const { branch, oid, detached, files, ...upstreamFields } = parseStatus(status.stdout.toString('utf8'), prefix);
      const entries = groupByFolder(files, filePath, MAX_STATUS_ENTRIES);
      const page = pageOf(entries, offset, MAX_STATUS_ENTRIES);
      return {
        success: true,
        branch: branch ?? (oid ? oid.slice(0, 12) : 'HEAD'),
        detached,
        ...upstreamFields,
        files: page.entries,
        ...page.moreField,
      };
    },

    /**
     * @param {{cwd?: string, staged?: boolean}} [params]
     * @returns {Promise<Answer<ReturnType<typeof parseNumstat>[number]>>}
     */
    async gitDiffNumstat({ cwd, staged = false } = {}) {
      const directory = await resolveCwd(root, cwd);
      const inside = await git(['rev-parse', '--is-inside-work-tree'], directory);
      if (inside.code !== 0) return { success: false, error: describeGitError(inside, directory) };
      const result = await git([...DIFF, '--numstat', '-z', ...(staged ? ['--cached'] : []), '--', '.'], directory);
      if (result.code !== 0) return { success: false, error: describeGitError(result, directory) };
      const { entries: files, moreField } = pageOf(parseNumstat(result.stdout.toString('utf8')), 0, MAX_COUNTED_FILES);
      return { success: true, files, ...moreField };
    },

    /** @param {{cwd?: string, filePath?: string, staged?: boolean}} [params] */
    async gitDiffFile({ cwd, filePath, staged = false } = {}) {
      const directory = await resolveCwd(root, cwd);
      const inside = await git(['rev-parse', '--is-inside-work-tree'], directory);
      if (inside.code !== 0) return { success: false, error: describeGitError(inside, directory) };
      if (filePath === '') return { success: false, error: '"filePath" must name a file.' };
      await resolveInside(directory, filePath, { mustExist: false, field: 'filePath' });
      const result = await git([...DIFF, ...(staged ? ['--cached'] : []), '--', filePath], directory);
      if (result.code !== 0) return { success: false, error: describeGitError(result, directory) };
      if (result.stdout.length > 0 || staged) return { success: true, diff: result.stdout.toString('utf8') };
      return { success: true, diff: await diffUntracked(directory, filePath) };
    },
  };
}

/** Returns the diff of an untracked file against /dev/null; empty for a tracked file. */
async function diffUntracked(directory, filePath) {
  const info = await lstat(path.join(directory, filePath)).catch(() => null);
  // Only regular files: a pipe would block the read, and a link can lead outside.
  if (!info?.isFile()) return '';
  const untracked = await git(['ls-files', '--others', '-z', '--', filePath], directory);
  if (untracked.code !== 0 || untracked.stdout.length === 0) return '';
  const result = await git(['diff', '--no-ext-diff', '--no-textconv', '--no-color', '--no-index', '--', '/dev/null', filePath], directory);
  // With --no-index, exit code 1 means that there are differences.
  if (result.code !== 0 && result.code !== 1) throw new Error(describeGitError(result, directory));
  return result.stdout.toString('utf8');
}
