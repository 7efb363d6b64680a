/** The view of one session: a header, and below it the chat, the changes or the files. */

import './session.css';
import { ArrowLeft, FileDiff, FolderTree, MessagesSquare, Square } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { type MutableRef, useLayoutEffect, useRef } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Session, SessionSummary } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { getOwn } from '../state/get-own.ts';
import { closeSession, openSession } from '../state/hub-client.ts';
import { hasEnded, hasFailed, isArchived, isInTerminal, sessionTitle } from '../state/sessions.ts';
import { summaries } from '../state/store.ts';
import { cutText } from '../content/cut-text.ts';
import { escapeText } from '../content/escape-invisible.ts';
import { shortenPath } from '../content/paths.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { lazy } from './lazy.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { useSelector } from '../state/use-selector.ts';
import { Chat } from './chat.tsx';
import type { ReadingPlace } from './messages.tsx';
import { SessionMenu } from './session-menu.tsx';

const Changes = lazy(() => import('./changes.tsx').then(({ Changes }) => ({ default: Changes })));
const Files = lazy(() => import('./files.tsx').then(({ Files }) => ({ default: Files })));

type Tab = 'chat' | 'changes' | 'files';

const TABS = [
  { tab: 'chat', path: '', label: 'Chat', Icon: MessagesSquare },
  { tab: 'changes', path: '/changes', label: 'Changes', Icon: FileDiff },
  { tab: 'files', path: '/files', label: 'Files', Icon: FolderTree },
] as const;

export function SessionView({ id, tab }: { id: string; tab: Tab }) {
  // In a layout effect, so that shortcuts work as soon as the view is visible.
  useLayoutEffect(() => {
    void openSession(id);
    return () => closeSession(id);
  }, [id]);
  const readingPlace = useRef<ReadingPlace | null>(null);
  const session = useSelector(({ sessions }) => getOwn(sessions, id));
  const error = useSelector(({ sessionErrors }) => getOwn(sessionErrors, id));
  if (error?.isGone) return <SessionGone text={error.text} />;
  if (error) return <LoadFailed text={error.text} onRetry={() => void openSession(id)} />;
  return (
    <>
      <SessionHeader id={id} session={session} tab={tab} />
      {session ? <SessionTab session={session} tab={tab} readingPlace={readingPlace} /> : <LoadingSession />}
    </>
  );
}

/** `readingPlace`: the scroll position of the chat, which is kept while another tab is shown. */
function SessionTab({ session, tab, readingPlace }: { session: Session; tab: Tab; readingPlace: MutableRef<ReadingPlace | null> }) {
  if (tab === 'chat') return <Chat session={session} readingPlace={readingPlace} />;
  return <Suspense fallback={<LoadingSession />}>{tab === 'files' ? <Files session={session} /> : <Changes session={session} />}</Suspense>;
}

function LoadingSession() {
  return (
    <div class="page">
      <Skeleton label="Loading the session" lines={6} />
    </div>
  );
}

function SessionGone({ text }: { text: string }) {
  return (
    <div class="empty" role="alert">
      <h2>{text}</h2>
      <Link href="/" class="button primary">
        Back to sessions
      </Link>
    </div>
  );
}

function LoadFailed({ text, onRetry }: { text: string; onRetry: () => void }) {
  return (
    <div class="page">
      <div class="stack">
        <ErrorNotice text={text} onRetry={onRetry} />
        <Link href="/">Back to sessions</Link>
      </div>
    </div>
  );
}

function SessionHeader({ id, session, tab }: { id: string; session: Session | undefined; tab: Tab }) {
  const summary = session ?? getOwn(summaries.value, id);
  const { metadata } = summary ?? {};
  return (
    <header class="session-head">
      <div class="session-bar">
        <Link href="/" class="button quiet icon back" aria-label="Back to sessions">
          <ArrowLeft size={20} aria-hidden />
        </Link>
        <div class="session-name">
          <h1 class="ellipsis name">{summary ? sessionTitle(summary) : 'Session'}</h1>
          {session && hasFailed(session) ? (
            <AgentError text={session.metadata?.agentError} />
          ) : (
            <Place metadata={metadata} agentName={session?.metadata?.agentName} />
          )}
        </div>
        {session && <Activity session={session} />}
        {session && <SessionMenu session={session} />}
      </div>
      <nav class="tabs" aria-label="Session views">
        {TABS.map(({ tab: name, path, label, Icon }) => (
          <Link key={name} href={`/sessions/${id}${path}`} aria-current={tab === name ? 'page' : undefined}>
            <Icon size={16} aria-hidden /> <span class="tab-label">{label}</span>
          </Link>
        ))}
      </nav>
    </header>
  );
}

/** Shows where the session runs, and its agent. */
function Place({
  metadata,
  agentName,
}: {
  metadata: SessionSummary['metadata'] | Session['metadata'] | undefined;
  agentName: string | undefined;
}) {
  return (
    <p class="ellipsis muted small">
      {metadata && (
        <>
          <span class="mono">{shortenPath(metadata.path)}</span> on {metadata.host}
          {agentName && <> · {agentName}</>}
          {metadata.worktree?.branch && (
            <>
              {' '}
              · <span class="mono">{metadata.worktree.branch}</span>
            </>
          )}
        </>
      )}
    </p>
  );
}

/** Limit on the error text in the header, in characters. */
const MAX_ERROR_LENGTH = 1000;

/** Shows the first line of the error of an agent that could not be started. The conversation contains the whole error. */
function AgentError({ text = 'The agent could not be started.' }: { text: string | undefined }) {
  const start = cutText(text, MAX_ERROR_LENGTH);
  return (
    <p class="agent-error small" title={escapeText(start)}>
      <EscapedText text={start.split('\n', 1)[0] ?? ''} />
    </p>
  );
}

function Activity({ session }: { session: Session }) {
  const hasRequests = Object.keys(session.agentState?.requests ?? {}).length > 0;
  if (session.active && (session.thinking || hasRequests)) {
    return (
      <button
        type="button"
        class="button stop"
        onClick={() => void tryOrToast('Could not stop the agent', () => actions.abort(session.id))}
      >
        <Square size={14} aria-hidden fill="currentColor" /> <span class="stop-label">Stop</span>
      </button>
    );
  }
  if (!session.active) return <span class="chip">{isArchived(session) ? 'Archived' : hasEnded(session) ? 'Ended' : 'Not connected'}</span>;
  if (hasFailed(session)) return <span class="chip danger">Failed</span>;
  return isInTerminal(session) ? <span class="chip">In the terminal</span> : <span class="chip ok">Ready</span>;
}
