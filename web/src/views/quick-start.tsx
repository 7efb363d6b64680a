/** The first steps: a command for each agent, a line that shows when a computer has connected, and the way to the first session. */

import './quick-start.css';
import { CircleCheck, Copy, LoaderCircle, Plus } from 'lucide-preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { BRIDGE_AGENTS, type BridgeAgent, connectCommand } from '../content/bridge-agents.ts';
import { isLoopback } from '../content/device-code.ts';
import { hubAddress } from '../content/hub-address.ts';
import { connectCode, dropConnectCode, hasCodeFailed, keepConnectCode } from '../state/connect-code.ts';
import { sync } from '../state/hub-client.ts';
import { computerName } from '../state/machine-info.ts';
import { machines, summaries } from '../state/store.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { hasKeyboard } from '../ui/device.ts';
import { formatTime } from '../ui/format.ts';

/** `title`: the heading until a computer has connected. */
export function QuickStart({ title = 'Connect your computer' }: { title?: string }) {
  const [agent, setAgent] = useState<BridgeAgent>('claude');
  const computer = useConnectedComputer();
  useEffect(() => void sync.fetchMachines(), []);
  const isConnected = computer !== null;
  useEffect(() => (isConnected ? dropConnectCode() : keepConnectCode()), [isConnected]);
  return (
    <section class="quick-start" aria-labelledby="quick-start">
      <h2 id="quick-start">{isConnected ? 'Ready for the first task' : title}</h2>
      {!isConnected && (
        <>
          <p class="muted">Agents run on your own computers. In a project directory there, run:</p>
          <fieldset class="choices">
            <legend class="visually-hidden">Agent</legend>
            {BRIDGE_AGENTS.map(({ id, name }) => (
              <label key={id} class="choice">
                <input type="radio" name="quick-start-agent" value={id} checked={id === agent} onChange={() => setAgent(id)} />
                <span>{name}</span>
              </label>
            ))}
          </fieldset>
          <Command agent={agent} />
        </>
      )}
      {isConnected && <Status computer={computer} />}
      {isConnected && (
        <Link href={computer.machineId ? `/new?machine=${encodeURIComponent(computer.machineId)}` : '/new'} class="button primary">
          <Plus size={18} /> Start a session
        </Link>
      )}
    </section>
  );
}

function Command({ agent }: { agent: BridgeAgent }) {
  const current = connectCode.value;
  const isPending = current === null && !hasCodeFailed.value;
  const command = connectCommand(agent, hubAddress(), current?.code);
  return (
    <>
      <pre tabIndex={0} class="command">
        <code>
          {(isPending ? connectCommand(agent, hubAddress(), '····-····') : command).split(/ (?=--)/).map((part, index) => (
            <>
              {index > 0 && ' '}
              <span key={part} class="command-part">
                {part}
              </span>
            </>
          ))}
        </code>
      </pre>
      <div class="row wrap copy-command">
        <button type="button" class="button primary" disabled={isPending} onClick={() => void copyToClipboard(command)}>
          <Copy size={16} /> Copy
        </button>
        <Status computer={null} />
      </div>
      <p class="muted small">
        {hasCodeFailed.value && current === null
          ? 'The computer shows a code. Approve it under Settings, Enter a device’s code.'
          : `The code signs your computer in. It works once, until ${current ? formatTime(current.expiresAt) : '…'}; this page renews it. Do not share it.`}{' '}
        {isLoopback(hubAddress())
          ? 'This address works only on the computer that runs the hub.'
          : !hasKeyboard.value && `To copy the command there, open ${hubAddress().replace(/.*\/\//, '')} on that computer.`}{' '}
        You need Node 20 or newer, and the agent installed and signed in.
      </p>
    </>
  );
}

/** Says whether a computer has connected. */
function Status({ computer }: { computer: Computer | null }) {
  return (
    <p class={computer ? 'connect-status connected' : 'connect-status'} role="status">
      {computer ? <CircleCheck size={18} /> : <LoaderCircle size={18} class="spinning" />}
      {computer ? (
        <span>
          <EscapedText text={computer.name} /> is connected
        </span>
      ) : (
        <span>Waiting for your machine …</span>
      )}
    </p>
  );
}

interface Computer {
  name: string;
  machineId?: string | undefined;
}

/** Returns the computer that is online, or whose session appeared while the view is open. */
function useConnectedComputer(): Computer | null {
  const knownSessions = useMemo(() => new Set(Object.keys(summaries.value)), []);
  const [machine] = Object.values(machines.value);
  if (machine) return { name: computerName(machine), machineId: machine.id };
  const session = Object.values(summaries.value).find(({ id, active }) => active && !knownSessions.has(id));
  return session ? { name: session.metadata?.host || 'Your machine' } : null;
}
