/** What a machine reports about itself. */

import type { Machine } from '../api/types.ts';
import { isObject, isString } from '../api/validate.ts';

/** Returns the name to show for a machine. */
export function machineName({ id, metadata }: Machine): string {
  return metadata?.displayName || metadata?.host || id.slice(0, 8);
}

/** Returns the name of the machine's computer. Several machines may be on one computer. */
export const computerName = (machine: Machine): string => machine.metadata?.host || machineName(machine);

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
