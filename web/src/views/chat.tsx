/** The chat view of a session: messages, todos, pending requests, and the composer. */

import './chat.css';
import { Laptop, Play } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useRef, useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import { queueOf } from '../content/queue.ts';
import * as actions from '../state/actions.ts';
import { getOwn } from '../state/get-own.ts';
import { isMarkdownSettled } from '../state/markdown.ts';
import { hasEnded } from '../state/sessions.ts';
import { connectionState, isConfigSettled } from '../state/store.ts';
import { useSelector } from '../state/use-selector.ts';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { formatCount, formatTime } from '../ui/format.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { Composer } from './composer.tsx';
import { FoldedComposer, useComposerFold } from './folded-composer.tsx';
import { lazy } from './lazy.tsx';
import { Messages } from './messages.tsx';
import { PendingRequests } from './pending-requests.tsx';
import { resumeAndShow } from './resume.ts';
import { SearchBar } from './search-bar.tsx';
import { TodoStrip } from './todos.tsx';

const SessionRules = lazy(() => import('./session-rules.tsx').then(({ SessionRules }) => SessionRules));
const QueuedMessages = lazy(() => import('./queued-messages.tsx').then(({ QueuedMessages }) => QueuedMessages));

export function Chat({ session }: { session: Session }) {
  const isDockReady = useIsDockReady(session.id);
  return (
    <div class="chat">
      <SearchBar session={session} />
      <Messages session={session} />
      {/* The renderer of plans would otherwise move buttons just before a click. */}
      {isDockReady && isMarkdownSettled.value && <Dock session={session} />}
    </div>
  );
}

/**
 * Whether the dock can appear complete: parts that appear later would move its buttons just before a click. A stored session has no requests,
 * but its row in the list counts them. Without requests, the stored configuration is enough. Otherwise the dock waits for the configuration
 * and for the session, unless the session cannot be loaded.
 */
function useIsDockReady(id: string): boolean {
  const isReady = useSelector(({ config, summaries, sessionErrors, storedSessions }) => {
    const hasRequests = getOwn(summaries, id)?.pendingRequestsCount;
    if (config !== null && !hasRequests) return true;
    const isLoading = getOwn(storedSessions, id) && !getOwn(sessionErrors, id);
    return isConfigSettled.value && (!isLoading || ['offline', 'reconnecting'].includes(connectionState.value));
  });
  // A dock in which the user may type stays.
  return useEver(isReady);
}

/** Whether a condition was true in any rendering of the view. */
function useEver(isTrue: boolean): boolean {
  const wasTrue = useRef(false);
  wasTrue.current ||= isTrue;
  return wasTrue.current;
}

function Dock({ session }: { session: Session }) {
  const isLocal = session.mode === 'local';
  const hasRequests = Object.keys(session.agentState?.requests ?? {}).length > 0;
  const [isFolded, unfold] = useComposerFold(session.id, hasRequests);
  // Stays mounted after the last request, to say what happened to the request.
  const hadRequests = useEver(hasRequests);
  // Stays mounted after the last message, to keep a text that the user is editing.
  const hadQueue = useEver(queueOf(session.agentState) !== null);
  return (
    <div class="dock">
      <div class="dock-above">
        <ErrorBoundary>{session.todos && <TodoStrip todos={session.todos} />}</ErrorBoundary>
        <ErrorBoundary>
          {session.active && session.agentState?.sessionRules !== undefined && (
            <Suspense fallback={null}>
              <SessionRules session={session} />
            </Suspense>
          )}
        </ErrorBoundary>
        <ErrorBoundary>{hadRequests && <PendingRequests session={session} />}</ErrorBoundary>
        <ErrorBoundary>
          {hadQueue && (
            <Suspense fallback={null}>
              <QueuedMessages session={session} />
            </Suspense>
          )}
        </ErrorBoundary>
      </div>
      {session.active && session.metadata?.importedMessages !== undefined && (
        <p class="notice" role="status">
          Importing the history: {formatCount(session.metadata.importedMessages)} messages so far.
        </p>
      )}
      {!session.active && <InactiveNotice session={session} />}
      {!session.active && hasEnded(session) ? null : session.active && isLocal ? (
        <TerminalNotice session={session} />
      ) : isFolded ? (
        <FoldedComposer sessionId={session.id} onUnfold={unfold} />
      ) : (
        <Composer session={session} takesFocus={hasRequests} />
      )}
    </div>
  );
}

function InactiveNotice({ session }: { session: Session }) {
  const { activeAt } = session;
  const [, navigate] = useLocation();
  const [isBusy, setBusy] = useState(false);
  const resume = async () => {
    setBusy(true);
    await resumeAndShow(session, navigate);
    setBusy(false);
  };
  return (
    <div class="notice">
      <span>
        {hasEnded(session)
          ? "The agent's process has ended. Resume it to send messages."
          : `Not connected since ${formatTime(activeAt)}: the agent's machine may be asleep or offline. Resume the session if it does not come back.`}
      </span>
      <button type="button" class="button primary" disabled={isBusy} onClick={resume}>
        <Play size={16} /> {isBusy ? 'Resuming …' : 'Resume'}
      </button>
    </div>
  );
}

function TerminalNotice({ session: { id, metadata } }: { session: Session }) {
  // The console cannot end the agent's own terminal program.
  if (metadata?.terminalProgram !== undefined)
    return (
      <div class="notice">
        <Laptop size={18} />
        <span>In use in a terminal on {metadata.host || 'the machine'}. Messages wait until the program there ends.</span>
      </div>
    );
  return (
    <div class="notice">
      <Laptop size={18} />
      <span>The terminal is in control. Messages are read-only here.</span>
      <button type="button" class="button primary" onClick={() => void tryOrToast('Could not take control', () => actions.takeControl(id))}>
        Take control
      </button>
    </div>
  );
}
