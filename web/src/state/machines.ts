/** Calls to machines: checks directories and starts sessions. */

import { unwrap } from '../api/client.ts';
import type { Machine } from '../api/types.ts';
import { isObject, isString } from '../api/validate.ts';
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

/** Returns the directories in which a machine starts sessions, from the state that its CLI reports. Empty if the directories are unknown. */
export function servedDirectories({ runnerState }: Machine): string[] {
  const directories = isObject(runnerState) ? runnerState.directories : undefined;
  return Array.isArray(directories) ? directories.filter(isString) : [];
}

/**
 * Whether a directory seems to be outside the directories that a machine serves. Returns false if that cannot be decided, for example
 * for a relative path. Symbolic links are not resolved, so the machine may still serve the directory.
 */
export function isOutsideServedDirectories(directory: string, machine: Machine): boolean {
  const served = servedDirectories(machine);
  const { homeDir } = machine.metadata ?? {};
  const full = homeDir !== undefined ? directory.replace(/^~(?=\/|$)/, homeDir) : directory;
  const isInside = (parent: string) => full === parent || full.startsWith(parent.endsWith('/') ? parent : `${parent}/`);
  return full.startsWith('/') && served.length > 0 && !served.some(isInside);
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
  if (!success || !isString(sessionId) || sessionId === '')
    throw new Error((isString(error) && error) || 'The machine did not start the session and gave no reason.');
  return sessionId;
}
