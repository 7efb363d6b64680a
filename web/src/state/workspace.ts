/** Git changes and files of a session's directory. The session's CLI answers these calls. */

import { unwrap } from '../api/client.ts';
import { isNumber, isObject, isString, parseObjects } from '../api/validate.ts';
import { type ChangedFile, type LineCounts, readDiff, readLineCounts, readStatus } from '../content/git-output.ts';
import { api } from './hub-client.ts';

export interface GitChanges {
  branch: string | null;
  staged: ChangedFile[];
  unstaged: ChangedFile[];
  /** By path. */
  lineCounts: { staged: ReadonlyMap<string, LineCounts>; unstaged: ReadonlyMap<string, LineCounts> };
}

export interface DirectoryEntry {
  name: string;
  type: 'file' | 'directory';
  size?: number;
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
  const path = { id };
  const [status, staged, unstaged] = await Promise.all([
    fetchResult(api.GET('/api/sessions/{id}/git-status', { params: { path } })),
    fetchLineCounts(id, true),
    fetchLineCounts(id, false),
  ]);
  const { branch, files } = readStatus(status);
  return {
    branch,
    staged: files.filter((file) => isStaged(file, staged)),
    unstaged: files.filter((file) => isUnstaged(file, unstaged)),
    lineCounts: { staged, unstaged },
  };
}

async function fetchLineCounts(id: string, staged: boolean): Promise<ReadonlyMap<string, LineCounts>> {
  const params = { path: { id }, query: { staged: staged ? ('true' as const) : ('false' as const) } };
  return readLineCounts(await fetchResult(api.GET('/api/sessions/{id}/git-diff-numstat', { params })));
}

/** Uses git's status letter, or else whether the staged diff has lines. */
function isStaged({ path, index }: ChangedFile, lineCounts: ReadonlyMap<string, LineCounts>): boolean {
  return index === undefined ? lineCounts.has(path) : !'.?'.includes(index);
}

function isUnstaged({ path, status, worktree }: ChangedFile, lineCounts: ReadonlyMap<string, LineCounts>): boolean {
  return worktree === undefined ? lineCounts.has(path) || status === 'untracked' : worktree !== '.';
}

/** Returns the unified diff of a file. */
export async function fetchDiff(id: string, file: string, staged: boolean): Promise<string> {
  const params = { path: { id }, query: { path: file, staged: staged ? ('true' as const) : ('false' as const) } };
  return readDiff(await fetchResult(api.GET('/api/sessions/{id}/git-diff-file', { params })));
}

/** Returns the content of a folder. The empty path is the session's directory. */
export async function fetchDirectory(id: string, folder: string): Promise<DirectoryEntry[]> {
  const params = { path: { id }, query: folder === '' ? {} : { path: folder } };
  const { entries } = await fetchResult(api.GET('/api/sessions/{id}/directory', { params }));
  return parseObjects<DirectoryEntry>(entries, { name: isString, size: isNumber }, ['name']).map((entry) => ({ ...entry, type: entry.type === 'directory' ? 'directory' : 'file' }));
}

/** Returns the paths of files whose names contain a word or match a glob pattern. */
export async function searchFiles(id: string, query: string): Promise<string[]> {
  const params = { path: { id }, query: { query, limit: 200 } };
  const { files } = await fetchResult(api.GET('/api/sessions/{id}/files', { params }));
  const found = parseObjects<{ filePath: string; fileName: string }>(files, { filePath: isString, fileName: isString }, ['filePath', 'fileName']);
  return found.map(({ filePath, fileName }) => (filePath === fileName || filePath.endsWith(`/${fileName}`) ? filePath : `${filePath}/${fileName}`));
}

export async function fetchFile(id: string, file: string): Promise<Uint8Array<ArrayBuffer>> {
  const params = { path: { id }, query: { path: file } };
  const { content } = await fetchResult(api.GET('/api/sessions/{id}/file', { params }));
  return Uint8Array.from(decodeBase64(content), (character) => character.charCodeAt(0));
}

function decodeBase64(content: unknown): string {
  try {
    if (isString(content)) return atob(content);
  } catch {
    // Invalid base64.
  }
  throw new Error('The agent returned no valid file content.');
}
