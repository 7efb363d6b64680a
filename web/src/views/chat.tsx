/** A session's conversation: what was said, what the agent asks, what is to do, and the line to write. */

import './chat.css';
import { Laptop, Play } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { Boundary } from '../ui/boundary.tsx';
import { attempt } from '../ui/toasts.tsx';
import { Composer } from './composer.tsx';
import { Messages } from './messages.tsx';
import { Requests } from './requests.tsx';
import { resumeAndShow } from './session-menu.tsx';
import { Todos } from './todos.tsx';

/** The conversation. */
export function Chat({ session }: { session: Session }) {
  const isLocal = session.mode === 'local';
  return (
    <div class="chat">
      <Messages session={session} />
      <div class="dock">
        <div class="dock-above">
          <Boundary>{session.todos && session.todos.length > 0 && <Todos todos={session.todos} />}</Boundary>
          <Boundary>{session.active && <Requests session={session} />}</Boundary>
        </div>
        {!session.active ? <Ended id={session.id} /> : isLocal ? <Local id={session.id} /> : <Composer session={session} />}
      </div>
    </div>
  );
}

function Ended({ id }: { id: string }) {
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState(false);
  const resume = async () => {
    setBusy(true);
    await resumeAndShow(id, navigate);
    setBusy(false);
  };
  return (
    <div class="notice">
      <span>The agent's process has ended, so nothing can be sent.</span>
      <button type="button" class="button primary" disabled={busy} onClick={resume}>
        <Play size={16} aria-hidden /> {busy ? 'Resuming …' : 'Resume'}
      </button>
    </div>
  );
}

function Local({ id }: { id: string }) {
  return (
    <div class="notice">
      <Laptop size={18} aria-hidden />
      <span>The terminal is in control. You can read along.</span>
      <button type="button" class="button primary" onClick={() => void attempt('Not switched', () => actions.takeControl(id))}>
        Take control
      </button>
    </div>
  );
}
