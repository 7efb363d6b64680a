/** The machines that are online. */

import './machines.css';
import { Plus, Server } from 'lucide-preact';
import { useEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Machine } from '../api/types.ts';
import { sync } from '../state/hub-client.ts';
import { machineName } from '../state/machines.ts';
import { loadStates, machines, summaries } from '../state/store.ts';
import { shortenPath } from '../content/paths.ts';
import { LoadGate } from '../ui/loading.tsx';

export function Machines() {
  useEffect(() => void sync.fetchMachines(), []);
  const sorted = Object.values(machines.value).sort((a, b) => machineName(a).localeCompare(machineName(b)) || (a.id < b.id ? -1 : 1));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Machines">
      <div class="page-head">
        <h1>Machines</h1>
      </div>
      <LoadGate loadState={loadStates.machines.value} label="Loading the machines" onRetry={() => void sync.fetchMachines()}>
        {sorted.length === 0 ? (
          <NoMachines />
        ) : (
          <LoadGate loadState={loadStates.list.value} label="Loading the sessions" onRetry={() => void sync.fetchSessions()}>
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

/** Shown instead of a list when no machine is online. */
export function NoMachines() {
  return (
    <div class="empty">
      <h2>No machine is online</h2>
      <p>A machine appears here while an agent runs on it. Start one in a project directory:</p>
      <pre tabIndex={0}>
        <code>npm run agent -- --agent claude --dir PATH</code>
      </pre>
    </div>
  );
}

function MachineCard({ machine }: { machine: Machine }) {
  const { id, metadata } = machine;
  const sessions = Object.values(summaries.value).filter((session) => session.active && session.metadata?.machineId === id);
  const directories = [...new Set(sessions.map((session) => session.metadata?.path ?? ''))];
  return (
    <article class="card machine">
      <Server size={20} aria-hidden />
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
      <Link href={`/new?machine=${encodeURIComponent(id)}`} class="button">
        <Plus size={16} aria-hidden /> New session
      </Link>
    </article>
  );
}
