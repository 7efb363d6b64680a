/** The chat view of a session: messages, todos, pending requests, and the composer. */

import './chat.css';
import { Laptop, Play } from 'lucide-preact';
import { type MutableRef, useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { hasEnded } from '../state/sessions.ts';
import { isConfigSettled } from '../state/store.ts';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { formatTime } from '../ui/format.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { Composer } from './composer.tsx';
import { Messages, type ReadingPlace } from './messages.tsx';
import { PendingRequests } from './pending-requests.tsx';
import { resumeAndShow } from './session-menu.tsx';
import { SessionRules } from './session-rules.tsx';
import { TodoStrip } from './todos.tsx';

export function Chat({ session, readingPlace }: { session: Session; readingPlace: MutableRef<ReadingPlace | null> }) {
  return (
    <div class="chat">
      <Messages session={session} readingPlace={readingPlace} />
      {/* Waits for the deployment's modes: their buttons would move other buttons just before a click. */}
      {isConfigSettled.value && <Dock session={session} />}
    </div>
  );
}

function Dock({ session }: { session: Session }) {
  const isLocal = session.mode === 'local';
  return (
    <div class="dock">
      <div class="dock-above">
        <ErrorBoundary>{session.todos && session.todos.length > 0 && <TodoStrip todos={session.todos} />}</ErrorBoundary>
        <ErrorBoundary>{session.active && <SessionRules session={session} />}</ErrorBoundary>
        <ErrorBoundary>
          <PendingRequests session={session} />
        </ErrorBoundary>
      </div>
      {!session.active ? (
        <InactiveNotice session={session} />
      ) : isLocal ? (
        <TerminalNotice id={session.id} />
      ) : (
        <Composer session={session} />
      )}
    </div>
  );
}

function InactiveNotice({ session }: { session: Session }) {
  const { id, activeAt } = session;
  const [, navigate] = useLocation();
  const [isBusy, setBusy] = useState(false);
  const resume = async () => {
    setBusy(true);
    await resumeAndShow(id, navigate);
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
        <Play size={16} aria-hidden /> {isBusy ? 'Resuming …' : 'Resume'}
      </button>
    </div>
  );
}

function TerminalNotice({ id }: { id: string }) {
  return (
    <div class="notice">
      <Laptop size={18} aria-hidden />
      <span>The terminal is in control. Messages are read-only here.</span>
      <button type="button" class="button primary" onClick={() => void tryOrToast('Could not take control', () => actions.takeControl(id))}>
        Take control
      </button>
    </div>
  );
}
