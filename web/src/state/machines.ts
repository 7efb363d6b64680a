/** Calls to machines: checks directories and starts sessions. */

import { unwrap } from '../api/client.ts';
import type { Machine } from '../api/types.ts';
import { isString } from '../api/validate.ts';
import { api } from './hub-client.ts';

/** Returns the name to show for a machine. */
export function machineName({ id, metadata }: Machine): string {
  return metadata?.displayName || metadata?.host || id.slice(0, 8);
}

export interface SpawnOptions {
  directory: string;
  agent: string;
  model: string;
  yolo: boolean;
  /** The name of a new git worktree; empty for none. */
  worktree: string;
}

export async function directoryExists(machineId: string, directory: string): Promise<boolean> {
  const params = { path: { id: machineId } };
  const existing = await unwrap(api.POST('/api/machines/{id}/paths/exists', { params, body: { paths: [directory] } }));
  return existing[directory] === true;
}

/**
 * Starts a session.
 * @returns its id
 * @throws {Error} with the machine's error message
 */
export async function spawnSession(machineId: string, { directory, agent, model, yolo, worktree }: SpawnOptions): Promise<string> {
  const params = { path: { id: machineId } };
  const body = {
    directory,
    agent,
    ...(model === '' ? {} : { model }),
    ...(yolo ? { yolo } : {}),
    ...(worktree === '' ? {} : { sessionType: 'worktree' as const, worktreeName: worktree }),
  };
  const { success, sessionId, error } = await unwrap(api.POST('/api/machines/{id}/spawn', { params, body }));
  if (!success || !isString(sessionId) || sessionId === '') throw new Error((isString(error) && error) || 'The machine did not start the session and gave no reason.');
  return sessionId;
}
