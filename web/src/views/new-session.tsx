/** The page that starts a session. */

import './new-session.css';
import { useEffect, useRef } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { sync } from '../state/hub-client.ts';
import { loadStates, machines } from '../state/store.ts';
import { LoadGate } from '../ui/loading.tsx';
import { NewSessionForm } from './new-session-form.tsx';
import { QuickStart } from './quick-start.tsx';

export function NewSession() {
  useEffect(() => void sync.fetchMachines(), []);
  // The form stays when its last machine goes offline, with all that was chosen.
  const wasOnline = useRef(false);
  if (Object.keys(machines.value).length > 0) wasOnline.current = true;
  const [params] = useSearchParams();
  const machineId = params.get('machine');
  return (
    <div class="page" tabIndex={0} role="region" aria-label="New session">
      <div class="page-head">
        <h1>New session</h1>
      </div>
      <LoadGate loadState={loadStates.machines.value} label="Loading the machines" onRetry={() => void sync.refetchShown()}>
        {!wasOnline.current ? (
          <QuickStart title="No machine is online" />
        ) : (
          <LoadGate loadState={loadStates.config.value} label="Loading the agents" onRetry={() => void sync.refetchShown()}>
            <LoadGate loadState={loadStates.list.value} label="Loading the sessions" onRetry={() => void sync.refetchShown()}>
              <NewSessionForm key={machineId ?? ''} machineId={machineId} />
            </LoadGate>
          </LoadGate>
        )}
      </LoadGate>
    </div>
  );
}
