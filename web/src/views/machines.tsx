/** The machines that are online. */

import './machines.css';
import { Plus, Server } from 'lucide-preact';
import { useEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Machine } from '../api/types.ts';
import { sync } from '../hub.ts';
import { machineName } from '../state/machines.ts';
import { machines, reading, summaries } from '../state/store.ts';
import { Read, shortPath } from '../ui/pieces.tsx';

/** The view. */
export function Machines() {
  useEffect(() => void sync.machines(), []);
  const all = Object.values(machines.value).sort((a, b) => machineName(a).localeCompare(machineName(b)) || (a.id < b.id ? -1 : 1));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Machines">
      <div class="page-head">
        <h1>Machines</h1>
      </div>
      <Read reading={reading.machines.value} label="Reading the machines" onRetry={() => void sync.machines()}>
        {all.length === 0 ? <NoMachines /> : <ul role="list" class="stack">{all.map((one) => <li key={one.id}><MachineCard machine={one} /></li>)}</ul>}
      </Read>
    </div>
  );
}

/** What to do when no machine is online. */
export function NoMachines() {
  return (
    <div class="empty">
      <h2>No machine is online</h2>
      <p>A machine appears here when an agent runs on it. Start one in a project's directory:</p>
      <pre tabIndex={0}>
        <code>npm run agent -- --dir PATH</code>
      </pre>
    </div>
  );
}

function MachineCard({ machine }: { machine: Machine }) {
  const { id, metadata } = machine;
  const sessions = Object.values(summaries.value).filter((one) => one.active && one.metadata?.machineId === id);
  const directories = [...new Set(sessions.map((one) => one.metadata?.path ?? ''))];
  return (
    <article class="card machine">
      <Server size={20} aria-hidden />
      <div>
        <h2>{machineName(machine)}</h2>
        <p class="muted small">
          {[metadata?.platform, metadata?.version && `version ${metadata.version}`, sessions.length === 1 ? '1 active session' : `${sessions.length} active sessions`]
            .filter(Boolean)
            .join(' · ')}
        </p>
        {directories.map((path) => (
          <p key={path} class="mono small ellipsis">
            {shortPath(path, metadata?.homeDir)}
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
