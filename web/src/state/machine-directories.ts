/** The folders and git branches of a machine. The machine's CLI answers these calls. */

import { unwrap } from '../api/client.ts';
import { isNumber, isObject, isString, parseObjects } from '../api/validate.ts';
import { api } from './hub-client.ts';

export interface Folder {
  name: string;
  path: string;
  isGitRepository?: boolean;
}

export interface FolderList {
  /** The path of the listed directory; null for the list of the served directories. */
  path: string | null;
  folders: Folder[];
  /** How many folders the machine left out. */
  more: number;
  /** The directories that the machine serves. */
  roots: string[];
}

export interface BranchList {
  /** The branch that is checked out; null if there is none. */
  current: string | null;
  branches: string[];
  /** The branches for which a worktree can be opened under their own name. */
  available: string[];
  /** How many branches the machine left out. */
  more: number;
}

/** The hub's error for a machine whose CLI does not have a method. */
const MISSING_METHOD = /^No handler registered/;

/**
 * Returns the result of a call to a machine; null if the machine's CLI does not have the method. The fields of the result are not validated.
 * @throws {Error} with the machine's error message
 */
async function fetchResult(call: Parameters<typeof unwrap>[0]): Promise<Record<string, unknown> | null> {
  const response: unknown = await unwrap(call);
  if (isObject(response) && response.success === true) return response;
  const error = isObject(response) && isString(response.error) ? response.error : '';
  if (MISSING_METHOD.test(error)) return null;
  throw new Error(error || 'The machine reported an error without a message.');
}

/** Fetches the folders of a directory. `path`: null for the directories that the machine serves. Null if the machine cannot list folders. */
export async function fetchFolders(machineId: string, path: string | null): Promise<FolderList | null> {
  const query = path === null ? {} : { path };
  const result = await fetchResult(api.GET('/api/machines/{id}/directory', { params: { path: { id: machineId }, query } }));
  if (!result) return null;
  const { entries, more, roots } = result;
  return {
    path: isString(result.path) ? result.path : path,
    folders: parseObjects<Folder>(entries, { name: isString, path: isString, isGitRepository: (value) => value === true }, [
      'name',
      'path',
    ]),
    more: isNumber(more) ? more : 0,
    roots: Array.isArray(roots) ? roots.filter(isString) : [],
  };
}

/** Fetches the branches of a directory's repository. Null if the machine cannot list branches. */
export async function fetchBranches(machineId: string, path: string): Promise<BranchList | null> {
  const result = await fetchResult(api.GET('/api/machines/{id}/branches', { params: { path: { id: machineId }, query: { path } } }));
  if (!result) return null;
  const { current, branches, available, more } = result;
  return {
    current: isString(current) ? current : null,
    branches: Array.isArray(branches) ? branches.filter(isString) : [],
    available: Array.isArray(available) ? available.filter(isString) : [],
    more: isNumber(more) ? more : 0,
  };
}
