/** Calls to machines: checks directories and starts sessions. */

import { unwrap } from '../api/client.ts';
import { machineError } from '../api/errors.ts';
import { isString } from '../api/validate.ts';
import { api } from './hub-client.ts';

export interface SpawnOptions {
  directory: string;
  agent: string;
  model: string;
  /** The values of the agent's options by id. */
  options: Record<string, string | boolean>;
  yolo: boolean;
  /** The name of a new git worktree; empty for none. */
  worktree: string;
  /** The branch from which the worktree starts; empty for the commit that is checked out. */
  branch: string;
  /** Whether the user trusts the directory. */
  trust: boolean;
}

export async function directoryExists(machineId: string, directory: string): Promise<boolean> {
  const params = { path: { id: machineId } };
  const existing = await unwrap(api.POST('/api/machines/{id}/paths/exists', { params, body: { paths: [directory] } }));
  return existing[directory] === true;
}

/**
 * Starts a session.
 * @returns the id of the session
 * @throws {Error} with the machine's error message
 */
export async function spawnSession(
  machineId: string,
  { directory, agent, model, options, yolo, worktree, branch, trust }: SpawnOptions,
): Promise<string> {
  const params = { path: { id: machineId } };
  const body = {
    directory,
    agent,
    ...(model === '' ? {} : { model }),
    ...(Object.keys(options).length === 0 ? {} : { options }),
    ...(yolo ? { yolo } : {}),
    ...(trust ? { trust } : {}),
    ...(worktree === '' ? {} : { sessionType: 'worktree' as const, worktreeName: worktree, ...(branch === '' ? {} : { branch }) }),
  };
  const answer = await unwrap(api.POST('/api/machines/{id}/spawn', { params, body }));
  const { success, sessionId } = answer;
  if (!success || !isString(sessionId) || sessionId === '')
    throw machineError(answer, 'The machine did not start the session and gave no reason.');
  return sessionId;
}
