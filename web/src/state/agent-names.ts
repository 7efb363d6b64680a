/** Loads the lists of agents, for the names of agents that are not in the metadata of their sessions. */

import { useEffect } from 'preact/hooks';
import type { SessionSummary } from '../api/types.ts';
import { sync } from './hub-client.ts';
import { state } from './store.ts';

export function useAgentNames(sessions: readonly SessionSummary[]): void {
  const hasUnnamed = sessions.some(({ metadata }) => metadata?.flavor && !metadata.agentName);
  useEffect(() => {
    if (!hasUnnamed) return;
    if (state.value.configLoad.status === 'idle') void sync.fetchConfig();
    if (state.value.machinesLoad.status === 'idle') void sync.fetchMachines();
  }, [hasUnnamed]);
}
