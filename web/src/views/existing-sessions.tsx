/** Lists the sessions that the agents of a machine have stored, and imports them. */

import './existing-sessions.css';
import { ArrowLeft, Download } from 'lucide-preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import type { Machine } from '../api/types.ts';
import { type AgentSession, importAgentSession, listAgentSessions } from '../state/agent-sessions.ts';
import { agentsOn } from '../state/catalog.ts';
import { machineName } from '../state/machine-info.ts';
import { shortenPath } from '../content/paths.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatTime } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { PathText } from '../ui/path-text.tsx';
import { openOrOffer, showToast } from '../ui/toasts.tsx';
import { startAskingTrust } from './ask-trust.ts';

interface Listing {
  sessions: AgentSession[];
  /** Undefined at the end of the list. */
  nextCursor: string | undefined;
  isLoading: boolean;
  error: string | null;
}

const EMPTY: Listing = { sessions: [], nextCursor: undefined, isLoading: true, error: null };

/** `machine`: undefined if it is offline. */
export function ExistingSessions({ machine }: { machine: Machine | undefined }) {
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Existing sessions">
      <div class="page-head existing-head">
        <Link href="/machines" class="button quiet icon" aria-label="Back to machines">
          <ArrowLeft size={20} />
        </Link>
        <h1>Existing sessions</h1>
      </div>
      {machine ? (
        <AgentSessions key={machine.id} machine={machine} />
      ) : (
        <p class="notice warn" role="status">
          That machine is offline. Start the agent on it again to see its sessions.
        </p>
      )}
    </div>
  );
}

function AgentSessions({ machine }: { machine: Machine }) {
  const agents = agentsOn(machine);
  const [agent, setAgent] = useState(agents[0]?.id ?? '');
  const { sessions, nextCursor, isLoading, error, loadMore } = useAgentSessions(machine.id, agent);
  const list = useRef<HTMLUListElement>(null);
  // The button that loads more is removed while it has the focus: the first loaded session gets the focus.
  const indexToFocus = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (indexToFocus.current !== null) list.current?.children[indexToFocus.current]?.querySelector<HTMLElement>('.button')?.focus();
    indexToFocus.current = null;
  }, [sessions.length]);
  return (
    <div class="stack">
      <p class="muted">
        The sessions that the agent has on {machineName(machine)}. An import brings the history, and the session continues here.
      </p>
      <div class="field">
        <label for="existing-agent">Agent</label>
        <select id="existing-agent" class="input" value={agent} onChange={({ currentTarget }) => setAgent(currentTarget.value)}>
          {agents.map(({ id, label }) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <ul role="list" class="stack" ref={list}>
        {sessions.map((session) => (
          <li key={session.id}>
            <SessionCard machine={machine} agent={agent} session={session} />
          </li>
        ))}
      </ul>
      {isLoading && <Skeleton label="Loading the sessions" lines={sessions.length === 0 ? 6 : 2} />}
      {error !== null && <ErrorNotice text={error} onRetry={loadMore} />}
      {!isLoading && error === null && sessions.length === 0 && (
        <p class="empty" role="status">
          This agent has no sessions in the directories of this machine.
        </p>
      )}
      {!isLoading && error === null && nextCursor !== undefined && (
        <button
          type="button"
          class="button"
          onClick={() => {
            indexToFocus.current = sessions.length;
            loadMore();
          }}
        >
          Load more
        </button>
      )}
    </div>
  );
}

/** Loads the list page by page. `loadMore` also tries again after an error. */
function useAgentSessions(machineId: string, agent: string): Listing & { loadMore: () => void } {
  const [listing, setListing] = useState<Listing>(EMPTY);
  // The number of the latest load. The answer to an earlier load is ignored: another agent may be selected now.
  const latestLoad = useRef(0);
  const loadPage = async (before: Listing) => {
    latestLoad.current += 1;
    const thisLoad = latestLoad.current;
    setListing({ ...before, isLoading: true, error: null });
    try {
      const page = await listAgentSessions(machineId, agent, before.nextCursor);
      const known = new Set(before.sessions.map(({ id }) => id));
      const added = page.sessions.filter(({ id }) => !known.has(id));
      const sessions = [...before.sessions, ...added];
      if (latestLoad.current === thisLoad) setListing({ sessions, nextCursor: page.nextCursor, isLoading: false, error: null });
    } catch (failure) {
      if (latestLoad.current === thisLoad) setListing({ ...before, isLoading: false, error: errorText(failure) });
    }
  };
  useEffect(() => {
    void loadPage(EMPTY);
    return () => {
      latestLoad.current += 1;
    };
  }, [machineId, agent]);
  return { ...listing, loadMore: () => void loadPage(listing) };
}

function SessionCard({ machine, agent, session }: { machine: Machine; agent: string; session: AgentSession }) {
  const { id, title, directory, updatedAt, sessionId } = session;
  const [, navigate] = useLocation();
  const card = useRef<HTMLElement>(null);
  const name = title === '' ? id : title;
  const [isBusy, setBusy] = useState(false);
  const importSession = async () => {
    if (isBusy) return;
    setBusy(true);
    try {
      await startAskingTrust(async (trust) => {
        const url = `/sessions/${await importAgentSession(machine.id, agent, session, trust)}`;
        openOrOffer(card.current !== null, navigate, { title: 'Session imported', text: name, url });
      });
    } catch (failure) {
      showToast({ title: 'Could not import the session', text: errorText(failure), isError: true });
    } finally {
      setBusy(false);
    }
  };
  return (
    <article class="card existing-session" ref={card}>
      <h2 class="existing-title" dir="auto" id={`existing-${id}`}>
        <EscapedText text={name} />
      </h2>
      <p class="mono small muted">
        <PathText path={shortenPath(directory, machine.metadata?.homeDir)} fullPath={directory} />
      </p>
      <p class="small muted">{updatedAt === undefined ? 'Time unknown' : formatTime(updatedAt)}</p>
      {sessionId === undefined ? (
        <button type="button" class="button" aria-disabled={isBusy} aria-describedby={`existing-${id}`} onClick={importSession}>
          <Download size={16} /> {isBusy ? 'Importing …' : 'Import'}
        </button>
      ) : (
        <Link href={`/sessions/${sessionId}`} class="button" aria-describedby={`existing-${id}`}>
          Open
        </Link>
      )}
    </article>
  );
}
