/** Machines, and starting sessions on them. */

import { data } from '../api/client.ts';
import type { Machine } from '../api/types.ts';
import { isText } from '../checked.ts';
import { api } from '../hub.ts';

/** What to call a machine. */
export function machineName({ id, metadata }: Machine): string {
  return metadata?.displayName || metadata?.host || id.slice(0, 8);
}

/** What a session is started with. */
export interface Start {
  directory: string;
  agent: string;
  model: string;
  yolo: boolean;
  /** The name of the new worktree, or empty for none. */
  worktree: string;
}

/** Whether there is such a directory on a machine. */
export async function exists(machineId: string, directory: string): Promise<boolean> {
  const params = { path: { id: machineId } };
  const found = await data(api.POST('/api/machines/{id}/paths/exists', { params, body: { paths: [directory] } }));
  return found[directory] === true;
}

/**
 * Starts a session.
 * @returns its id
 * @throws {Error} with the words of the machine when it did not
 */
export async function spawn(machineId: string, { directory, agent, model, yolo, worktree }: Start): Promise<string> {
  const params = { path: { id: machineId } };
  const body = {
    directory,
    agent,
    ...(model === '' ? {} : { model }),
    ...(yolo ? { yolo } : {}),
    ...(worktree === '' ? {} : { sessionType: 'worktree' as const, worktreeName: worktree }),
  };
  const { success, sessionId, error } = await data(api.POST('/api/machines/{id}/spawn', { params, body }));
  if (!success || !isText(sessionId) || sessionId === '') throw new Error((isText(error) && error) || 'The machine did not start the session.');
  return sessionId;
}
