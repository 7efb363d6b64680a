/** Git and files of a session's directory, as its CLI answers. */

import { data } from '../api/client.ts';
import { isNumber, isObject, isText, listOf } from '../checked.ts';
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
 * The result of a CLI, whose fields may hold anything.
 * @throws {Error} with its words when it failed
 */
async function result(call: Parameters<typeof data>[0]): Promise<Record<string, unknown>> {
  const found = await data(call);
  if (isObject(found) && found.success === true) return found;
  throw new Error((isObject(found) && isText(found.error) && found.error) || 'The agent could not do that.');
}

/** What has changed, staged and not. */
export async function changesOf(id: string): Promise<Changes> {
  const path = { id };
  const [status, staged, unstaged] = await Promise.all([
    result(api.GET('/api/sessions/{id}/git-status', { params: { path } })),
    numbersOf(id, true),
    numbersOf(id, false),
  ]);
  const fields = { path: isText, status: isText, index: isText, worktree: isText, oldPath: isText };
  const files = listOf<ChangedFile>(status.files, fields, ['path']).map((file) => ({ ...file, status: file.status ?? 'unknown' }));
  return {
    branch: isText(status.branch) ? status.branch : null,
    staged: files.filter((file) => isStaged(file, staged)),
    unstaged: files.filter((file) => isUnstaged(file, unstaged)),
    numbers: { staged, unstaged },
  };
}

async function numbersOf(id: string, staged: boolean): Promise<ReadonlyMap<string, Numbers>> {
  const params = { path: { id }, query: { staged: staged ? ('true' as const) : ('false' as const) } };
  const { files } = await result(api.GET('/api/sessions/{id}/git-diff-numstat', { params }));
  const all = listOf<Numbers>(files, { path: isText, added: isNumber, removed: isNumber }, ['path', 'added', 'removed']);
  return new Map(all.map((one) => [one.path, one]));
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
  const { diff } = await result(api.GET('/api/sessions/{id}/git-diff-file', { params }));
  return isText(diff) ? diff : '';
}

/** What is in a folder; the empty path is the session's directory itself. */
export async function entriesOf(id: string, folder: string): Promise<Entry[]> {
  const params = { path: { id }, query: folder === '' ? {} : { path: folder } };
  const { entries } = await result(api.GET('/api/sessions/{id}/directory', { params }));
  return listOf<Entry>(entries, { name: isText, size: isNumber }, ['name']).map((one) => ({ ...one, type: one.type === 'directory' ? 'directory' : 'file' }));
}

/** Paths of files whose names have a word, or fit a pattern. */
export async function findFiles(id: string, query: string): Promise<string[]> {
  const params = { path: { id }, query: { query, limit: 200 } };
  const { files } = await result(api.GET('/api/sessions/{id}/files', { params }));
  const found = listOf<{ filePath: string; fileName: string }>(files, { filePath: isText, fileName: isText }, ['filePath', 'fileName']);
  return found.map(({ filePath, fileName }) => (filePath === fileName || filePath.endsWith(`/${fileName}`) ? filePath : `${filePath}/${fileName}`));
}

/** The bytes of a file. */
export async function contentOf(id: string, file: string): Promise<Uint8Array<ArrayBuffer>> {
  const params = { path: { id }, query: { path: file } };
  const { content } = await result(api.GET('/api/sessions/{id}/file', { params }));
  return Uint8Array.from(decoded(content), (character) => character.charCodeAt(0));
}

function decoded(content: unknown): string {
  try {
    if (isText(content)) return atob(content);
  } catch {
    // What is no base64 is no content either.
  }
  throw new Error('The agent’s answer holds no file.');
}
