/**
 * Reads the results of git calls. Most CLIs return the fields of the protocol; some return the output of git in `stdout`. Any other
 * result is an error, never an empty list.
 */

import { isNumber, isString, parseObjects } from '../api/validate.ts';

/**
 * A changed file, or a folder of files with the same status. The path of a folder ends with a slash. `index` and `worktree` are the
 * status letters of `git status --porcelain=v2`, which a CLI may omit.
 */
export interface ChangedFile {
  path: string;
  status: string;
  index?: string;
  worktree?: string;
  oldPath?: string;
  /** The number of files in a folder, if the CLI has counted them. */
  count?: number;
  /** Whether the path is a repository of its own. */
  repository?: boolean;
  /** The branch of the repository. */
  branch?: string;
}

export interface LineCounts {
  path: string;
  added: number;
  removed: number;
}

export interface GitStatus {
  branch: string | null;
  files: ChangedFile[];
  /** How many further entries the CLI has. */
  more: number;
}

type CallResult = Record<string, unknown>;

const STATUS_FIELDS = {
  path: isString,
  status: isString,
  index: isString,
  worktree: isString,
  oldPath: isString,
  count: isNumber,
  repository: (value: unknown) => value === true,
  branch: isString,
};

/** Reads the result of `git status`: the protocol's fields, or the output of `--porcelain` version 1 or 2. */
export function readStatus(result: CallResult): GitStatus {
  if (Array.isArray(result.files)) {
    const files = parseObjects<ChangedFile>(result.files, STATUS_FIELDS, ['path']).map((file) => ({
      ...file,
      status: file.status ?? 'unknown',
    }));
    return { branch: isString(result.branch) ? result.branch : null, files, more: isNumber(result.more) ? result.more : 0 };
  }
  const status: GitStatus = { branch: null, files: [], more: 0 };
  for (const line of outputLines(result)) {
    const header = /^# branch\.head (.*)$/.exec(line)?.[1] ?? /^## (?:No commits yet on )?(.*?)(?:\.\.\..*)?$/.exec(line)?.[1];
    if (header !== undefined) status.branch = /^(\(detached\)|HEAD \(no branch\))$/.test(header) ? null : header;
    // Skips other headers, the stash, and ignored files.
    else if (!/^(# |! |!! )/.test(line)) status.files.push(readStatusLine(line));
  }
  return status;
}

function readStatusLine(line: string): ChangedFile {
  const untracked = /^\?\?? (.*)$/s.exec(line);
  if (untracked) return { path: unquote(untracked[1] ?? ''), status: 'untracked', index: '?', worktree: '?' };
  // Version 2: `1 XY <6 fields> path`, `2 XY <7 fields> path<tab>old path`, `u XY <8 fields> path`.
  const changed = /^1 (..)(?: \S+){6} (.*)$/s.exec(line);
  if (changed) return changedFile(changed[1], changed[2]);
  const renamed = /^2 (..)(?: \S+){7} ([^\t]*)\t(.*)$/s.exec(line);
  if (renamed) return changedFile(renamed[1], renamed[2], renamed[3]);
  const unmerged = /^u (..)(?: \S+){8} (.*)$/s.exec(line);
  if (unmerged) return { ...changedFile(unmerged[1], unmerged[2]), status: 'conflicted' };
  // Version 1: `XY path` or `XY old path -> path`.
  const short = /^([ MTADRCU]{2}) (.*)$/s.exec(line);
  if (!short) throw unreadableError();
  const [, letters = '', paths = ''] = short;
  const [old, path] = /[RC]/.test(letters) ? paths.split(' -> ') : [];
  const file = changedFile(letters.replaceAll(' ', '.'), path ?? paths, path === undefined ? undefined : old);
  return /U|AA|DD/.test(letters) ? { ...file, status: 'conflicted' } : file;
}

const STATUSES = new Map(Object.entries({ M: 'modified', T: 'typechange', A: 'added', D: 'deleted', R: 'renamed', C: 'copied' }));

function changedFile(letters = '', path = '', oldPath?: string): ChangedFile {
  const [index = '.', worktree = '.'] = letters;
  const status = STATUSES.get(index === '.' ? worktree : index) ?? 'unknown';
  return { path: unquote(path), status, index, worktree, ...(oldPath === undefined ? {} : { oldPath: unquote(oldPath) }) };
}

/** By git's letters for our side and the other side. */
const CONFLICTS = new Map(
  Object.entries({
    UU: 'both modified',
    AA: 'both added',
    DD: 'both deleted',
    UD: 'deleted by them',
    DU: 'deleted by us',
    UA: 'added by them',
    AU: 'added by us',
  }),
);

/** Returns in words what both sides of a conflict did, such as `deleted by them`; null if there is no conflict, or it is unknown. */
export const describeConflict = ({ status, index = '', worktree = '' }: ChangedFile): string | null =>
  (status === 'conflicted' && CONFLICTS.get(index + worktree)) || null;

/** Reads the result of `git diff --numstat`, by path. The counts of a binary file are 0. */
export function readLineCounts(result: CallResult): ReadonlyMap<string, LineCounts> {
  const counts = Array.isArray(result.files)
    ? parseObjects<LineCounts>(result.files, { path: isString, added: isNumber, removed: isNumber }, ['path', 'added', 'removed'])
    : outputLines(result).map(readCountsLine);
  return new Map(counts.map((count) => [count.path, count]));
}

function readCountsLine(line: string): LineCounts {
  const [, added, removed, paths] = /^(\d+|-)\t(\d+|-)\t(.+)$/s.exec(line) ?? [];
  if (paths === undefined) throw unreadableError();
  // A rename is `old => new`, or `folder/{old => new}/file`.
  const [start, end] = [paths.indexOf('{'), paths.lastIndexOf('}')];
  const arrow = paths.lastIndexOf(' => ', end - 4);
  const path =
    start >= 0 && arrow > start
      ? (paths.slice(0, start) + paths.slice(arrow + 4, end) + paths.slice(end + 1)).replaceAll('//', '/')
      : (paths.split(' => ')[1] ?? paths);
  return { path: unquote(path), added: Number(added) || 0, removed: Number(removed) || 0 };
}

export function readDiff({ diff, stdout }: CallResult): string {
  const output = diff ?? stdout;
  if (!isString(output)) throw unreadableError();
  // git prints this line in place of the diff of a file with a conflict, or before the diff.
  const text = output.replace(/^\* Unmerged path .*\n?/, '');
  if (text.trim() !== '' && !/^(diff --(git|cc|combined) |--- |@@ |Binary files )/m.test(text)) throw unreadableError();
  return text;
}

function outputLines({ stdout }: CallResult): string[] {
  if (!isString(stdout)) throw unreadableError();
  return stdout.split(/\r?\n/).filter((line) => line !== '');
}

/** Returns a path without the quotes and escapes that git adds because of special characters. */
function unquote(path: string): string {
  if (!/^".*"$/s.test(path)) return path;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const [, octal, escaped, plain] of path.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gs)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else bytes.push(...encoder.encode(plain ?? ESCAPES.get(escaped ?? '') ?? escaped));
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

const ESCAPES = new Map(Object.entries({ a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' }));

const unreadableError = () => new Error('The agent answered with git output that the console cannot read.');
