/** The view of one session: a header, and below it the chat, the changes or the files. */

import './session.css';
import type { ComponentChildren } from 'preact';
import { ArrowLeft, FileDiff, FolderTree, MessageCircleOff, MessagesSquare, MoreHorizontal, Square } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useLayoutEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Session, SessionSummary } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { agentLabel } from '../state/catalog.ts';
import { isUnsent } from '../state/conversation.ts';
import { getOwn } from '../state/get-own.ts';
import { closeSession, openSession } from '../state/hub-client.ts';
import { forkPoint, sessionDialog } from '../state/jump.ts';
import { hasFailed, sessionTitle } from '../state/sessions.ts';
import { isConnected, summaries, waitingInOtherSessions } from '../state/store.ts';
import { cutText } from '../content/cut-text.ts';
import { escapeText } from '../content/escape-invisible.ts';
import { shortenPath } from '../content/paths.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { lazy } from './lazy.tsx';
import { ErrorText } from '../ui/error-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { useSelector } from '../state/use-selector.ts';
import { Chat } from './chat.tsx';
import { ConnectionBanner } from './connection-banner.tsx';
import { CHIPS, currentStatus } from './session-row.tsx';
import { Outgoing } from './timeline-item.tsx';

/** Shown until the code of the menu is fetched. */
const MENU_BUTTON = (
  <button type="button" class="button quiet icon" aria-label="Session actions" disabled>
    <MoreHorizontal size={20} />
  </button>
);

const SessionMenu = lazy(() => import('./session-menu.tsx').then(({ SessionMenu }) => SessionMenu));
const Changes = lazy(() => import('./changes.tsx').then(({ Changes }) => Changes));
const ForkDialog = lazy(() => import('./fork-dialog.tsx').then(({ ForkDialog }) => ForkDialog));
const SessionDialog = lazy(() => import('./session-dialog.tsx').then(({ SessionDialog }) => SessionDialog));
const Files = lazy(() => import('./files.tsx').then(({ Files }) => Files));

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
  const session = useSelector(({ sessions }) => getOwn(sessions, id));
  const error = useSelector(({ sessionErrors }) => getOwn(sessionErrors, id));
  if (error?.isGone) return <SessionGone id={id} text={error.text} />;
  return (
    <>
      <SessionHeader id={id} session={session} tab={tab} />
      {tab === 'chat' && <ConnectionBanner />}
      {session && sessionDialog.value?.sessionId === id && (
        <Suspense fallback={null}>
          <SessionDialog session={session} kind={sessionDialog.value.kind} />
        </Suspense>
      )}
      {forkPoint.value?.sessionId === id && (
        <Suspense fallback={null}>
          <ForkDialog point={forkPoint.value} />
        </Suspense>
      )}
      {error && (!session || isConnected.value) && (
        <div class={session ? (tab === 'chat' ? 'connection' : undefined) : 'page'}>
          <ErrorNotice text={error.text} onRetry={() => void openSession(id)} />
        </div>
      )}
      {session ? <SessionTab session={session} tab={tab} /> : !error && <LoadingSession />}
    </>
  );
}

function SessionTab({ session, tab }: { session: Session; tab: Tab }) {
  if (tab === 'chat') return <Chat session={session} />;
  return <Suspense fallback={<LoadingSession />}>{tab === 'files' ? <Files session={session} /> : <Changes session={session} />}</Suspense>;
}

function LoadingSession() {
  return (
    <div class="page">
      <Skeleton label="Loading the session" lines={6} />
    </div>
  );
}

/** The first sentence of the text is the heading. Below it are the messages that were not sent. */
function SessionGone({ id, text }: { id: string; text: string }) {
  const end = text.search(/\.\s/) + 1;
  const outgoing = useSelector(({ conversations }) => getOwn(conversations, id)?.outgoing) ?? [];
  return (
    <div class="empty" role="alert">
      <MessageCircleOff size={40} />
      <h1>{end === 0 ? text : text.slice(0, end)}</h1>
      {end > 0 && (
        <p>
          <ErrorText text={text.slice(end)} />
        </p>
      )}
      <Link href="/" class="button primary">
        Back to sessions
      </Link>
      {outgoing.filter(isUnsent).map((message) => (
        <Outgoing key={message.localId} sessionId={id} metadata={null} outgoing={message} />
      ))}
    </div>
  );
}

function SessionHeader({ id, session, tab }: { id: string; session: Session | undefined; tab: Tab }) {
  const summary = session ?? getOwn(summaries.value, id);
  const { metadata } = summary ?? {};
  const waiting = waitingInOtherSessions(id);
  // What a stored session was doing may be out of date.
  const isStored = useSelector(({ storedSessions }) => getOwn(storedSessions, id)) !== undefined;
  return (
    <header class="session-head">
      <div class="session-bar">
        <Link
          href="/"
          class="button quiet icon back"
          aria-label={waiting === 0 ? 'Back to sessions' : `Back to sessions, ${waiting} waiting`}
        >
          <ArrowLeft size={20} />
          {waiting > 0 && (
            <span class="badge" aria-hidden>
              {waiting > 99 ? '99+' : waiting}
            </span>
          )}
        </Link>
        <div class="session-name">
          <h1 class="ellipsis name">{summary ? sessionTitle(summary) : 'Session'}</h1>
          {session && hasFailed(session) ? (
            <AgentError text={session.metadata?.agentError} />
          ) : (
            <Place status={session && !isStored && <StatusText session={session} />} metadata={metadata} agentName={agentLabel(metadata)} />
          )}
        </div>
        {session && !isStored && <Activity session={session} />}
        {session && (
          <ErrorBoundary>
            <Suspense fallback={MENU_BUTTON}>
              <SessionMenu session={session} />
            </Suspense>
          </ErrorBoundary>
        )}
      </div>
      <nav class="tabs" aria-label="Session views">
        {TABS.map(({ tab: name, path, label, Icon }) => (
          <Link key={name} href={`/sessions/${id}${path}`} aria-current={tab === name ? 'page' : undefined}>
            <Icon size={16} /> {label}
          </Link>
        ))}
      </nav>
    </header>
  );
}

/** Shows since when the agent works and on what, or since when it does not. */
function StatusText({ session }: { session: Session }) {
  const { activity, text, detail, idle } = currentStatus(session, Object.keys(session.agentState?.requests ?? {}).length);
  // For all other activities, the chip in the header or the requests say enough.
  const shown = activity === 'ready' ? idle : ['working', 'stalled', 'offline'].includes(activity) ? text : undefined;
  if (shown === undefined) return null;
  return (
    <>
      <span class={activity === 'stalled' ? 'session-stalled' : undefined}>{shown}</span>
      {detail !== undefined && (
        <>
          {' · '}
          <span class="mono">
            <EscapedText text={detail} />
          </span>
        </>
      )}
      {' · '}
    </>
  );
}

/** Shows where the session runs, and its agent. */
function Place({
  status,
  metadata,
  agentName,
}: {
  status: ComponentChildren;
  metadata: SessionSummary['metadata'] | Session['metadata'] | undefined;
  agentName: string | undefined;
}) {
  return (
    <p class="ellipsis muted small">
      {metadata && (
        <>
          {status}
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

/** The button that stops the agent, or what the session does. */
function Activity({ session }: { session: Session }) {
  const { activity, text } = currentStatus(session, Object.keys(session.agentState?.requests ?? {}).length);
  if (['waiting', 'working', 'stalled'].includes(activity)) {
    return (
      <button
        type="button"
        class="button danger stop"
        onClick={() => void tryOrToast('Could not stop the agent', () => actions.abort(session.id))}
      >
        <Square size={14} fill="currentColor" /> Stop
      </button>
    );
  }
  // On a phone, styles hide this chip, because the text below the title says the same.
  if (activity === 'offline') return <span class="chip not-connected">Not connected</span>;
  return <span class={CHIPS[activity]}>{activity === 'terminal' ? 'In the terminal' : `${text[0]?.toUpperCase()}${text.slice(1)}`}</span>;
}
