/**
 * The place of the form for a new session. A place stays chosen while its machine is offline: the form must not start the session, with the
 * options of one computer, on another computer.
 */

import type { Machine, SessionSummary } from '../api/types.ts';
import { getOwn } from './get-own.ts';
import { type Place, placeKey } from './places.ts';

export interface ChosenPlace {
  machineId: string;
  directory: string;
  /** Whether the directory is typed, and not one of the recent places. */
  isOther: boolean;
}

type Machines = Readonly<Record<string, Machine>>;

/** Returns the machines that are online, and the machine of the chosen place. `seen`: this machine when it was last online. */
export const knownMachines = (online: Machines, seen: Machine | undefined): Machines =>
  seen && !getOwn(online, seen.id) ? { ...online, [seen.id]: seen } : online;

/**
 * Returns the chosen place; without a choice, the first of the recent places.
 * @param places the recent places, of all machines that the form knows
 * @param requestedId of the machine that the link to the form names: then only places of this machine are proposed
 */
export function startPlace(
  chosen: ChosenPlace | null,
  { places, online, requestedId }: { places: readonly Place[]; online: Machines; requestedId: string | null },
): { place: ChosenPlace; isOffline: boolean } {
  const place = chosen ?? proposePlace(places, requestedId ?? Object.keys(online)[0] ?? '', requestedId);
  return { place, isOffline: getOwn(online, place.machineId) === undefined };
}

function proposePlace(places: readonly Place[], machineId: string, requestedId: string | null): ChosenPlace {
  const proposed = places.find(({ machine }) => requestedId === null || machine.id === requestedId);
  if (!proposed) return { machineId, directory: '', isOther: true };
  return { machineId: proposed.machine.id, directory: proposed.directory, isOther: false };
}

/** Returns the newest connected session of a place that has no messages. `key`: of {@link placeKey}. */
export const readySession = (sessions: readonly SessionSummary[], key: string): SessionSummary | undefined =>
  sessions
    .filter(({ active, metadata }) => {
      const { machineId = '', worktree, path = '' } = metadata ?? {};
      return active && metadata?.lifecycleState === 'initializing' && placeKey(machineId, worktree?.basePath ?? path) === key;
    })
    .sort((a, b) => b.createdAt - a.createdAt)[0];
