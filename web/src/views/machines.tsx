/** The machines that are online. */

import './machines.css';
import { History, Plus, Server } from 'lucide-preact';
import { useEffect } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import type { Machine } from '../api/types.ts';
import { getOwn } from '../state/get-own.ts';
import { sync } from '../state/hub-client.ts';
import { machineName } from '../state/machine-info.ts';
import { loadStates, machines, summaries } from '../state/store.ts';
import { shortenPath } from '../content/paths.ts';
import { LoadGate } from '../ui/loading.tsx';
import { ExistingSessions } from './existing-sessions.tsx';
import { QuickStart } from './quick-start.tsx';

export function Machines() {
  useEffect(() => void sync.fetchMachines(), []);
  const [params] = useSearchParams();
  const existingOn = params.get('existing');
  if (existingOn !== null && loadStates.machines.value.status === 'ready') {
    return <ExistingSessions machine={getOwn(machines.value, existingOn)} />;
  }
  const sorted = Object.values(machines.value).sort((a, b) => machineName(a).localeCompare(machineName(b)) || (a.id < b.id ? -1 : 1));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Machines">
      <div class="page-head">
        <h1>Machines</h1>
      </div>
      <LoadGate loadState={loadStates.machines.value} label="Loading the machines" onRetry={() => void sync.refetchShown()}>
        {sorted.length === 0 ? (
          <QuickStart title="No machine is online" />
        ) : (
          <LoadGate loadState={loadStates.list.value} label="Loading the sessions" onRetry={() => void sync.refetchShown()}>
            <ul role="list" class="stack">
              {sorted.map((machine) => (
                <li key={machine.id}>
                  <MachineCard machine={machine} />
                </li>
              ))}
            </ul>
          </LoadGate>
        )}
      </LoadGate>
    </div>
  );
}

function MachineCard({ machine }: { machine: Machine }) {
  const { id, metadata } = machine;
  const sessions = Object.values(summaries.value).filter((session) => session.active && session.metadata?.machineId === id);
  const directories = [...new Set(sessions.map((session) => session.metadata?.path ?? ''))];
  return (
    <article class="card machine">
      <Server size={20} />
      <div>
        <h2>{machineName(machine)}</h2>
        <p class="muted small">
          {[
            metadata?.platform,
            metadata?.version && `version ${metadata.version}`,
            sessions.length === 1 ? '1 active session' : `${sessions.length} active sessions`,
          ]
            .filter(Boolean)
            .join(' · ')}
        </p>
        {directories.map((path) => (
          <p key={path} class="mono small ellipsis">
            {shortenPath(path, metadata?.homeDir)}
          </p>
        ))}
      </div>
      <span class="chip ok">online</span>
      <div class="machine-actions">
        <Link href={`/new?machine=${encodeURIComponent(id)}`} class="button">
          <Plus size={16} /> New session
        </Link>
        {/* Machines that list their agents also list the sessions of the agents. */}
        {Array.isArray(metadata?.agents) && (
          <Link href={`/machines?existing=${encodeURIComponent(id)}`} class="button">
            <History size={16} /> Existing sessions
          </Link>
        )}
      </div>
    </article>
  );
}
