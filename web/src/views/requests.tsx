/** What the agent asks before it acts: one card a request, answered with one touch. */

import './requests.css';
import { Ban, Check, ShieldQuestion, X } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { PendingRequest, Session } from '../api/types.ts';
import { editsOf, questionsOf, summarize } from '../content/tools.ts';
import * as actions from '../state/actions.ts';
import { editMode, modeLabel } from '../state/modes.ts';
import { ask } from '../ui/dialog.tsx';
import { attempt } from '../ui/toasts.tsx';
import { Questions } from './questions.tsx';
import { ToolIcon } from './tool.tsx';
import { Input } from './tool-input.tsx';

/** The longest reason that the hub takes. */
const MAX_REASON = 1000;

/** The requests of a session that wait, oldest first. */
export function Requests({ session }: { session: Session }) {
  const requests = Object.entries(session.agentState?.requests ?? {});
  requests.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0));
  return (
    <div role="region" aria-label="Requests" class="requests">
      <p class="hidden-visually" role="status">
        {requests.length > 0 && `The agent asks: ${requests[0]?.[1].tool ?? ''} ${summarize(requests[0]?.[1].arguments)}`}
      </p>
      {requests.map(([id, request]) => (
        <RequestCard key={id} session={session} id={id} request={request} />
      ))}
    </div>
  );
}

function RequestCard({ session, id, request }: { session: Session; id: string; request: PendingRequest }) {
  const [busy, setBusy] = useState(false);
  const questions = questionsOf(request.arguments);
  const tool = request.tool ?? 'A tool';
  const answer = async (work: () => Promise<unknown>) => {
    setBusy(true);
    // What was answered leaves the session's state, and with it this card.
    if (!(await attempt('Not answered', work))) setBusy(false);
  };
  const approve = (approval: actions.Approval) => void answer(() => actions.approve(session.id, id, approval));
  const deny = (decision: 'denied' | 'abort', reason?: string) => answer(() => actions.deny(session.id, id, decision, reason));
  const denyWithReason = () =>
    ask({
      title: 'Deny',
      field: { label: 'What should the agent know? (optional)', value: '', maxLength: MAX_REASON, isOptional: true },
      action: 'Deny',
      onConfirm: (reason) => actions.deny(session.id, id, 'denied', reason),
    });
  const edits = editMode(session.metadata?.flavor);
  return (
    <section class="request" aria-label={`${tool} asks`} aria-busy={busy}>
      <h2>
        {questions.length > 0 ? <ShieldQuestion size={16} aria-hidden /> : <ToolIcon name={tool} />}
        {questions.length > 0 ? 'The agent has a question' : `May it use ${tool}?`}
      </h2>
      {questions.length > 0 ? (
        <Questions questions={questions} busy={busy} onAnswer={(answers) => approve({ decision: 'approved', answers })} onSkip={() => void deny('denied')} />
      ) : (
        <>
          <div class="request-input" tabIndex={0} role="region" aria-label="What it would do">
            <Input input={request.arguments} />
          </div>
          <div class="request-actions">
            <button type="button" class="button primary" disabled={busy} onClick={() => approve({ decision: 'approved' })}>
              <Check size={18} aria-hidden /> Approve
            </button>
            <button type="button" class="button" disabled={busy} onClick={() => approve({ decision: 'approved_for_session' })}>
              For this session
            </button>
            {edits && editsOf(request.arguments).length > 0 && (
              <button type="button" class="button" disabled={busy} onClick={() => approve({ decision: 'approved', mode: edits })}>
                {modeLabel(edits)}
              </button>
            )}
            <button type="button" class="button danger" disabled={busy} onClick={denyWithReason}>
              <X size={18} aria-hidden /> Deny
            </button>
            <button type="button" class="button danger" disabled={busy} onClick={() => void deny('abort')}>
              <Ban size={16} aria-hidden /> Deny and stop
            </button>
          </div>
        </>
      )}
    </section>
  );
}
