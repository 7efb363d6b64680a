/** Git and files of a session's directory, as its CLI answers. */

import { data } from '../api/client.ts';
import { api } from '../hub.ts';

/** A file with changes. `index` and `worktree` are git's letters; a CLI may leave them out. */
export interface ChangedFile {
  path: string;
  status: string;
  index?: string;
  worktree?: string;
  oldPath?: string;
}

/** Lines that a file gained and lost. */
export interface Numbers {
  path: string;
  added: number;
  removed: number;
}

/** The changes of a directory. */
export interface Changes {
  branch: string | null;
  staged: ChangedFile[];
  unstaged: ChangedFile[];
  /** By path. */
  numbers: { staged: ReadonlyMap<string, Numbers>; unstaged: ReadonlyMap<string, Numbers> };
}

/** Something in a folder. */
export interface Entry {
  name: string;
  type: 'file' | 'directory';
  size?: number;
}

/**
 * The result of a CLI.
 * @throws {Error} with its words when it failed
 */
async function result<T>(call: Parameters<typeof data>[0]): Promise<T> {
  const found = (await data(call)) as { success?: boolean; error?: string };
  if (found.success !== true) throw new Error(found.error || 'The agent could not do that.');
  return found as T;
}

/** What has changed, staged and not. */
export async function changesOf(id: string): Promise<Changes> {
  const path = { id };
  const [status, staged, unstaged] = await Promise.all([
    result<{ branch?: string | null; files?: ChangedFile[] }>(api.GET('/api/sessions/{id}/git-status', { params: { path } })),
    numbersOf(id, true),
    numbersOf(id, false),
  ]);
  const files = status.files ?? [];
  return {
    branch: status.branch ?? null,
    staged: files.filter((file) => isStaged(file, staged)),
    unstaged: files.filter((file) => isUnstaged(file, unstaged)),
    numbers: { staged, unstaged },
  };
}

async function numbersOf(id: string, staged: boolean): Promise<ReadonlyMap<string, Numbers>> {
  const params = { path: { id }, query: { staged: staged ? ('true' as const) : ('false' as const) } };
  const { files = [] } = await result<{ files?: Numbers[] }>(api.GET('/api/sessions/{id}/git-diff-numstat', { params }));
  return new Map(files.map((one) => [one.path, one]));
}

/** By git's letters where the CLI tells them, else by whether there are lines. */
function isStaged({ path, index }: ChangedFile, numbers: ReadonlyMap<string, Numbers>): boolean {
  return index === undefined ? numbers.has(path) : !'.?'.includes(index);
}

function isUnstaged({ path, status, worktree }: ChangedFile, numbers: ReadonlyMap<string, Numbers>): boolean {
  return worktree === undefined ? numbers.has(path) || status === 'untracked' : worktree !== '.';
}

/** The unified diff of a file. */
export async function diffOf(id: string, file: string, staged: boolean): Promise<string> {
  const params = { path: { id }, query: { path: file, staged: staged ? ('true' as const) : ('false' as const) } };
  return (await result<{ diff?: string }>(api.GET('/api/sessions/{id}/git-diff-file', { params }))).diff ?? '';
}

/** What is in a folder; the empty path is the session's directory itself. */
export async function entriesOf(id: string, folder: string): Promise<Entry[]> {
  const params = { path: { id }, query: folder === '' ? {} : { path: folder } };
  return (await result<{ entries?: Entry[] }>(api.GET('/api/sessions/{id}/directory', { params }))).entries ?? [];
}

/** Paths of files whose names have a word, or fit a pattern. */
export async function findFiles(id: string, query: string): Promise<string[]> {
  const params = { path: { id }, query: { query, limit: 200 } };
  const { files = [] } = await result<{ files?: { fullPath: string; filePath: string; fileName: string }[] }>(
    api.GET('/api/sessions/{id}/files', { params }),
  );
  return files.map(({ filePath, fileName }) => (filePath === fileName || filePath.endsWith(`/${fileName}`) ? filePath : `${filePath}/${fileName}`));
}

/** The bytes of a file. */
export async function contentOf(id: string, file: string): Promise<Uint8Array<ArrayBuffer>> {
  const params = { path: { id }, query: { path: file } };
  const { content = '' } = await result<{ content?: string }>(api.GET('/api/sessions/{id}/file', { params }));
  return Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
}
