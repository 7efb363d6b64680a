/** Git changes and files of a session's directory. The session's CLI answers these calls. */

import { unwrap } from '../api/client.ts';
import { isNumber, isObject, isString, parseObjects } from '../api/validate.ts';
import { allSettled } from '../content/all-settled.ts';
import { type ChangedFile, type GitStatus, type LineCounts, readDiff, readLineCounts, readStatus } from '../content/git-output.ts';
import { api } from './hub-client.ts';

export type ChangesArea = 'staged' | 'unstaged';

export interface GitChanges {
  /** The folder of the repository, empty for the session's directory. */
  folder: string;
  branch: string | null;
  /** Repositories below the folder. */
  repositories: ChangedFile[];
  staged: ChangedFile[];
  unstaged: ChangedFile[];
  /** How many entries of the CLI's list are loaded, and how many more the list has. */
  loaded: number;
  more: number;
  /** By path. */
  lineCounts: Record<ChangesArea, ReadonlyMap<string, LineCounts>>;
}

export interface DirectoryEntry {
  name: string;
  type: 'file' | 'directory';
  size?: number;
}

/** A page of the content of a folder. */
export interface DirectoryPage {
  entries: DirectoryEntry[];
  /** How many further entries the folder has; null if the number is unknown and the CLI cannot list them. */
  more: number | null;
}

/**
 * Returns the result of a CLI call. Its fields are not validated.
 * @throws {Error} with the CLI's error message
 */
async function fetchResult(call: Parameters<typeof unwrap>[0]): Promise<Record<string, unknown>> {
  const response = await unwrap(call);
  if (isObject(response) && response.success === true) return response;
  throw new Error((isObject(response) && isString(response.error) && response.error) || 'The agent reported an error without a message.');
}

export async function fetchChanges(id: string): Promise<GitChanges> {
  // The error of the status comes first: it says what the CLI lacks.
  const [status, staged, unstaged] = await allSettled([fetchStatus(id), fetchLineCounts(id, true), fetchLineCounts(id, false)]);
  return toChanges('', status, { staged, unstaged });
}

/** Fetches the changes of a repository below the session's directory. `around`: the changes of the directory. */
export async function fetchRepositoryChanges(id: string, folder: string, around: GitChanges): Promise<GitChanges> {
  return toChanges(folder, await fetchStatus(id, { path: folder }), around.lineCounts);
}

function toChanges(folder: string, { branch, files, more }: GitStatus, lineCounts: GitChanges['lineCounts']): GitChanges {
  return { folder, branch, loaded: files.length, more, lineCounts, ...splitByArea(files, lineCounts) };
}

/** Fetches the changes after the loaded changes. */
export async function fetchMoreChanges(id: string, before: GitChanges): Promise<GitChanges> {
  const { folder, loaded } = before;
  const { files, more } = await fetchStatus(id, { ...(folder === '' ? {} : { path: folder }), offset: loaded });
  const { repositories, staged, unstaged } = splitByArea(files, before.lineCounts);
  return {
    ...before,
    loaded: loaded + files.length,
    more,
    repositories: appendChanges(before.repositories, repositories),
    staged: appendChanges(before.staged, staged),
    unstaged: appendChanges(before.unstaged, unstaged),
  };
}

/** Appends a page to a list. Skips entries that the list already has, because files may have changed between two requests. */
function appendNew<T>(list: T[], added: T[], keyOf: (entry: T) => string): T[] {
  const known = new Set(list.map(keyOf));
  return [...list, ...added.filter((entry) => !known.has(keyOf(entry)))];
}

export const appendChanges = (list: ChangedFile[], added: ChangedFile[]): ChangedFile[] => appendNew(list, added, changeKey);
export const appendEntries = (list: DirectoryEntry[], added: DirectoryEntry[]): DirectoryEntry[] =>
  appendNew(list, added, ({ name }) => name);

/** Identifies a change in a list. The path alone is not unique: a path may be deleted in the index and untracked. */
export const changeKey = ({ status, path }: ChangedFile): string => `${status} ${path}`;

/** A page of the changed files of a folder. `loaded` and `more` have the same meaning as in {@link GitChanges}. */
export interface FolderChanges {
  files: ChangedFile[];
  loaded: number;
  more: number;
}

/** Fetches the changed files of a folder that have the same status as the folder. Skips the first `offset` changes of the folder. */
export async function fetchFolderChanges(id: string, folder: ChangedFile, offset = 0): Promise<FolderChanges> {
  const { files, more } = await fetchStatus(id, { path: folder.path, ...(offset === 0 ? {} : { offset }) });
  // A CLI that does not know the parameter `path` answers with all changes.
  const inside = files.filter(({ path }) => path.startsWith(folder.path) && path !== folder.path);
  const matching = inside.filter(
    ({ status, index, worktree }) => status === folder.status && index === folder.index && worktree === folder.worktree,
  );
  return { files: matching, loaded: offset + files.length, more: inside.length > 0 ? more : 0 };
}

async function fetchStatus(id: string, query: { path?: string; offset?: number } = {}): Promise<GitStatus> {
  return readStatus(await fetchResult(api.GET('/api/sessions/{id}/git-status', { params: { path: { id }, query } })));
}

function splitByArea(allFiles: ChangedFile[], lineCounts: GitChanges['lineCounts']): Pick<GitChanges, ChangesArea | 'repositories'> {
  const files = allFiles.filter(({ repository }) => !repository);
  return {
    repositories: allFiles.filter(({ repository }) => repository),
    staged: files.filter((file) => isStaged(file, lineCounts.staged)),
    unstaged: files.filter((file) => isUnstaged(file, lineCounts.unstaged)),
  };
}

async function fetchLineCounts(id: string, staged: boolean): Promise<ReadonlyMap<string, LineCounts>> {
  const params = { path: { id }, query: { staged: staged ? ('true' as const) : ('false' as const) } };
  return readLineCounts(await fetchResult(api.GET('/api/sessions/{id}/git-diff-numstat', { params })));
}

/**
 * Whether a file is staged: by git's status letter. If the CLI omits the letter, by whether the staged diff has lines. A conflict is one change
 * of the working tree.
 */
function isStaged({ path, status, index }: ChangedFile, lineCounts: ReadonlyMap<string, LineCounts>): boolean {
  return status !== 'conflicted' && (index === undefined ? lineCounts.has(path) : !'.?'.includes(index));
}

function isUnstaged({ path, status, worktree }: ChangedFile, lineCounts: ReadonlyMap<string, LineCounts>): boolean {
  return status === 'conflicted' || (worktree === undefined ? lineCounts.has(path) || status === 'untracked' : worktree !== '.');
}

/** Returns the unified diff of a file. */
export async function fetchDiff(id: string, file: string, staged: boolean): Promise<string> {
  const params = { path: { id }, query: { path: file, staged: staged ? ('true' as const) : ('false' as const) } };
  return readDiff(await fetchResult(api.GET('/api/sessions/{id}/git-diff-file', { params })));
}

/** Returns the content of a folder, without the first `offset` entries. The empty path is the session's directory. */
export async function fetchDirectory(id: string, folder: string, offset = 0): Promise<DirectoryPage> {
  const query = { ...(folder === '' ? {} : { path: folder }), ...(offset === 0 ? {} : { offset }) };
  const { entries, more, truncated } = await fetchResult(api.GET('/api/sessions/{id}/directory', { params: { path: { id }, query } }));
  const validEntries = parseObjects<DirectoryEntry>(entries, { name: isString, size: isNumber }, ['name']);
  return {
    entries: validEntries.map((entry) => ({ ...entry, type: entry.type === 'directory' ? 'directory' : 'file' })),
    more: isNumber(more) ? more : truncated === true ? null : 0,
  };
}

/** Limit on the results of a search. */
export const MAX_FOUND_FILES = 200;

/** Returns the paths of files whose names contain a word or match a glob pattern. */
export async function searchFiles(id: string, query: string): Promise<string[]> {
  const params = { path: { id }, query: { query, limit: MAX_FOUND_FILES } };
  const { files } = await fetchResult(api.GET('/api/sessions/{id}/files', { params }));
  const validFiles = parseObjects<{ filePath: string; fileName: string }>(files, { filePath: isString, fileName: isString }, [
    'filePath',
    'fileName',
  ]);
  return validFiles.map(({ filePath, fileName }) =>
    filePath === fileName || filePath.endsWith(`/${fileName}`) ? filePath : `${filePath}/${fileName}`,
  );
}

export async function fetchFile(id: string, file: string): Promise<Uint8Array<ArrayBuffer>> {
  const params = { path: { id }, query: { path: file } };
  const { content } = await fetchResult(api.GET('/api/sessions/{id}/file', { params }));
  const text = decodeBase64(content);
  const bytes = new Uint8Array(text.length);
  // Much faster than `Uint8Array.from`, which calls a function for each character.
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

function decodeBase64(content: unknown): string {
  try {
    if (isString(content)) return atob(content);
  } catch {
    // The content is invalid base64.
  }
  throw new Error('The agent returned no valid file content.');
}
