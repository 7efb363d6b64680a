/** One session: its head, and the conversation, the changes or the files below it. */

import './session.css';
import { ArrowLeft, FileDiff, FolderTree, MessagesSquare, Square } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useLayoutEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import { close, open } from '../hub.ts';
import * as actions from '../state/actions.ts';
import { own } from '../own.ts';
import { isArchived, titleOf } from '../state/sessions.ts';
import { summaries } from '../state/store.ts';
import { lazy } from '../ui/lazy.tsx';
import { Failure, shortPath, Skeleton } from '../ui/pieces.tsx';
import { attempt } from '../ui/toasts.tsx';
import { useSelect } from '../ui/use-select.ts';
import { Chat } from './chat.tsx';
import { SessionMenu } from './session-menu.tsx';

const Changes = lazy(() => import('./changes.tsx').then(({ Changes }) => ({ default: Changes })));
const Files = lazy(() => import('./files.tsx').then(({ Files }) => ({ default: Files })));

type Tab = 'chat' | 'changes' | 'files';

const TABS = [
  { tab: 'chat', path: '', label: 'Chat', Icon: MessagesSquare },
  { tab: 'changes', path: '/changes', label: 'Changes', Icon: FileDiff },
  { tab: 'files', path: '/files', label: 'Files', Icon: FolderTree },
] as const;

/** The session of an address. */
export function SessionView({ id, tab }: { id: string; tab: Tab }) {
  // With its first picture, so that a key that is pressed at once finds it open.
  useLayoutEffect(() => {
    void open(id);
    return () => close(id);
  }, [id]);
  const session = useSelect(({ sessions }) => own(sessions, id));
  const error = useSelect(({ sessionErrors }) => own(sessionErrors, id));
  if (error?.isGone) return <Gone text={error.text} />;
  if (error) return <Unread text={error.text} onRetry={() => void open(id)} />;
  return (
    <>
      <Head id={id} session={session} tab={tab} />
      {session ? <Body session={session} tab={tab} /> : <Pending />}
    </>
  );
}

function Body({ session, tab }: { session: Session; tab: Tab }) {
  if (tab === 'chat') return <Chat session={session} />;
  return <Suspense fallback={<Pending />}>{tab === 'files' ? <Files session={session} /> : <Changes session={session} />}</Suspense>;
}

function Pending() {
  return (
    <div class="page">
      <Skeleton label="Reading the session" lines={6} />
    </div>
  );
}

function Gone({ text }: { text: string }) {
  return (
    <div class="empty" role="alert">
      <h2>{text}</h2>
      <Link href="/" class="button primary">
        To the sessions
      </Link>
    </div>
  );
}

function Unread({ text, onRetry }: { text: string; onRetry: () => void }) {
  return (
    <div class="page">
      <div class="stack">
        <Failure text={text} onRetry={onRetry} />
        <Link href="/">To the sessions</Link>
      </div>
    </div>
  );
}

function Head({ id, session, tab }: { id: string; session: Session | undefined; tab: Tab }) {
  const summary = session ?? own(summaries.value, id);
  const { metadata } = summary ?? {};
  return (
    <header class="session-head">
      <div class="session-bar">
        <Link href="/" class="button quiet icon back" aria-label="Back to the sessions">
          <ArrowLeft size={20} aria-hidden />
        </Link>
        <div class="session-name">
          <h1 class="ellipsis name">{summary ? titleOf(summary) : 'Session'}</h1>
          <p class="ellipsis muted small">
            {metadata && (
              <>
                <span class="mono">{shortPath(metadata.path)}</span> on {metadata.host}
                {metadata.worktree?.branch && (
                  <>
                    {' '}
                    · <span class="mono">{metadata.worktree.branch}</span>
                  </>
                )}
              </>
            )}
          </p>
        </div>
        {session && <Activity session={session} />}
        {session && <SessionMenu session={session} />}
      </div>
      <nav class="tabs" aria-label="Parts of the session">
        {TABS.map(({ tab: one, path, label, Icon }) => (
          <Link key={one} href={`/sessions/${id}${path}`} aria-current={tab === one ? 'page' : undefined}>
            <Icon size={16} aria-hidden /> {label}
          </Link>
        ))}
      </nav>
    </header>
  );
}

function Activity({ session }: { session: Session }) {
  const waits = Object.keys(session.agentState?.requests ?? {}).length > 0;
  if (session.active && (session.thinking || waits)) {
    return (
      <button type="button" class="button stop" onClick={() => void attempt('Not stopped', () => actions.abort(session.id))}>
        <Square size={14} aria-hidden fill="currentColor" /> <span class="stop-word">Stop</span>
      </button>
    );
  }
  return <span class={session.active ? 'chip ok' : 'chip'}>{session.active ? 'Ready' : isArchived(session) ? 'Archived' : 'Ended'}</span>;
}
