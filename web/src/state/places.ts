/** The places where sessions can start: a directory on a machine that is online. */

import type { Machine, SessionSummary } from '../api/types.ts';
import { shortenPath } from '../content/paths.ts';
import type { PinnedDirectory } from './drafts.ts';
import { computerName, servedDirectories } from './machine-info.ts';

export interface Place {
  machine: Machine;
  directory: string;
  /** Such as "demo on laptop". */
  label: string;
  /** The directory for display. */
  path: string;
  /** The newest session in the directory. */
  session?: SessionSummary;
}

/** Identifies a place. */
export const placeKey = (machineId: string, directory: string) => `${machineId}\0${directory}`;

/**
 * Returns the pinned directories, then the directories of the sessions, the newest session first, and then the directories that the
 * machines serve. The worktree of a session counts as its repository.
 * @param machines the machines that are online; directories of other machines are left out
 */
export function recentPlaces(
  sessions: Iterable<SessionSummary>,
  machines: Readonly<Record<string, Machine>>,
  pinned: readonly PinnedDirectory[] = [],
): Place[] {
  const places = new Map<string, Place>();
  const onlineMachine = (id: string) => (Object.hasOwn(machines, id) ? machines[id] : undefined);
  const add = (machine: Machine | undefined, directory: string | undefined, session?: SessionSummary) => {
    if (!machine || !directory) return;
    const key = placeKey(machine.id, directory);
    const known = places.get(key);
    if (known) return void (session && !known.session && places.set(key, { ...known, session }));
    const path = shortenPath(directory, machine.metadata?.homeDir);
    const label = `${path.split(/[\\/]/).filter(Boolean).at(-1) ?? path} on ${computerName(machine)}`;
    places.set(key, { machine, directory, label, path, ...(session ? { session } : {}) });
  };
  for (const { machineId, directory } of pinned) add(onlineMachine(machineId), directory);
  for (const session of [...sessions].sort((a, b) => b.createdAt - a.createdAt)) {
    const { machineId = '', worktree, path } = session.metadata ?? {};
    add(onlineMachine(machineId), worktree?.basePath ?? path, session);
  }
  for (const machine of Object.values(machines)) for (const directory of servedDirectories(machine)) add(machine, directory);
  return [...places.values()];
}
