/** What the agent asks before it acts: one card a request, answered with one touch. */

import './requests.css';
import { Ban, Check, Eye, ShieldQuestion, X } from 'lucide-preact';
import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { PendingRequest, Session } from '../api/types.ts';
import { argumentsOf, questionsOf } from '../content/arguments.ts';
import { json } from '../content/json.ts';
import { requestsOf } from '../content/permissions.ts';
import { summarize } from '../content/tools.ts';
import * as actions from '../state/actions.ts';
import { draftOf, dropDraft, keepDraft } from '../state/drafts.ts';
import { editMode, modeLabel } from '../state/modes.ts';
import { hasKeyboard } from '../ui/device.ts';
import { ask, isAsking } from '../ui/dialog.tsx';
import { attempt } from '../ui/toasts.tsx';
import { Visible } from '../ui/visible.tsx';
import { Questions } from './questions.tsx';
import { ToolIcon } from './tool.tsx';
import { Input, Rest } from './tool-input.tsx';

/** The longest reason that the hub takes. */
const MAX_REASON = 1000;

/** The requests of a session that wait, oldest first: one is open, the others are a line each. */
export function Requests({ session }: { session: Session }) {
  const requests = requestsOf(session.agentState?.requests ?? {});
  requests.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0));
  const [chosen, setChosen] = useState<string | null>(null);
  const open = (requests.some(([id]) => id === chosen) ? chosen : requests[0]?.[0]) ?? null;
  // One that comes, or says that it is older, does not take the place under somebody's finger.
  useEffect(() => setChosen(open), [open]);
  const place = useRef<HTMLDivElement>(null);
  const focusNext = useFocusAfterAnswer(requests.length, place);
  return (
    <div role="region" aria-label="Requests" class="requests" ref={place}>
      <p class="hidden-visually" role="status">
        {requests.length > 0 && `The agent asks: ${requests[0]?.[1].tool ?? ''} ${summarize(requests[0]?.[1].arguments)}`}
      </p>
      {requests.map(([id, request]) =>
        id === open ? (
          <RequestCard key={id} session={session} id={id} request={request} onAnswer={focusNext} />
        ) : (
          <RequestLine key={id} request={request} onOpen={() => setChosen(id)} />
        ),
      )}
    </div>
  );
}

/**
 * With an answer its button goes. Who answered by keys goes on with the next request, or with the line to write.
 * @returns to be called with each answer
 */
function useFocusAfterAnswer(count: number, place: RefObject<HTMLElement>): () => void {
  const isDue = useRef(false);
  const isAway = isAsking.value;
  useEffect(() => {
    if (!isDue.current || isAway || document.activeElement !== document.body) return;
    isDue.current = false;
    const next = place.current?.querySelector<HTMLElement>('.request :is(button, input)');
    (next ?? document.getElementById(hasKeyboard.value ? 'composer' : 'main'))?.focus({ preventScroll: true });
  }, [count, isAway]);
  return () => {
    isDue.current = true;
  };
}

const titleOf = ({ tool = 'A tool', arguments: input }: PendingRequest) => (questionsOf(input).questions.length > 0 ? 'The agent has a question' : `May it use ${tool}?`);

function RequestLine({ request, onOpen }: { request: PendingRequest; onOpen: () => void }) {
  const { tool = 'A tool', arguments: input } = request;
  const [question] = questionsOf(input).questions;
  return (
    <section class="request folded" aria-label={`${tool} asks`}>
      <button type="button" onClick={onOpen}>
        {question ? <ShieldQuestion size={16} aria-hidden /> : <ToolIcon name={tool} />}
        <span class="ellipsis">
          <Visible text={titleOf(request)} />
        </span>
        <span class="ellipsis muted small">
          <Visible text={question?.text ?? summarize(input)} />
        </span>
      </button>
    </section>
  );
}

interface CardProps {
  session: Session;
  id: string;
  request: PendingRequest;
  onAnswer: () => void;
}

function RequestCard({ session, id, request, onAnswer }: CardProps) {
  const [busy, setBusy] = useState(false);
  const { questions, rest } = useMemo(() => questionsOf(request.arguments), [request]);
  const { edits } = useMemo(() => argumentsOf(request.arguments), [request]);
  const content = useMemo(() => json([request.tool, request.arguments]), [request]);
  const [seen, setSeen] = useState(content);
  const tool = request.tool ?? 'A tool';
  const answer = async (work: () => Promise<unknown>) => {
    if (busy) return;
    setBusy(true);
    onAnswer();
    // What was answered leaves the session's state, and with it this card.
    if (await attempt('Not answered', work)) dropDraft(session.id, id);
    else setBusy(false);
  };
  const approve = (approval: actions.Approval) => void answer(() => actions.approve(session.id, id, approval));
  const deny = (decision: 'denied' | 'abort', reason?: string) => answer(() => actions.deny(session.id, id, decision, reason));
  const denyWithReason = () =>
    ask({
      title: 'Deny',
      field: {
        label: 'What should the agent know? (optional)',
        value: draftOf(session.id, id).reason,
        maxLength: MAX_REASON,
        isOptional: true,
        onWrite: (reason) => keepDraft(session.id, id, { reason }),
      },
      action: 'Deny',
      isDangerous: true,
      onConfirm: async (reason) => {
        onAnswer();
        await actions.deny(session.id, id, 'denied', reason);
        dropDraft(session.id, id);
      },
    });
  const lookAgain = () => {
    // What was begun was an answer to something else.
    dropDraft(session.id, id);
    setSeen(content);
  };
  const mode = editMode(session.metadata?.flavor);
  return (
    <section class="request" aria-label={`${tool} asks`} aria-busy={busy}>
      <h2>
        {questions.length > 0 ? <ShieldQuestion size={16} aria-hidden /> : <ToolIcon name={tool} />}
        <span>
          <Visible text={titleOf(request)} />
        </span>
        {questions.length > 0 && (
          <span class="muted small mono">
            <Visible text={tool} />
          </span>
        )}
      </h2>
      {content !== seen ? (
        <Changed onLook={lookAgain} />
      ) : questions.length > 0 ? (
        <Questions
          questions={questions}
          rest={<Rest fields={rest} />}
          draft={draftOf(session.id, id)}
          onDraft={(changes) => keepDraft(session.id, id, changes)}
          onAnswer={(answers) => approve({ decision: 'approved', answers })}
          onSkip={() => void deny('denied')}
        />
      ) : (
        <>
          <div class="request-input" tabIndex={0} role="region" aria-label="What it would do">
            <Input input={request.arguments} />
          </div>
          <div class="request-actions">
            <button type="button" class="button primary" onClick={() => approve({ decision: 'approved' })}>
              <Check size={18} aria-hidden /> Approve
            </button>
            <button type="button" class="button" onClick={() => approve({ decision: 'approved_for_session' })}>
              For this session
            </button>
            {mode && edits.length > 0 && (
              <button type="button" class="button" onClick={() => approve({ decision: 'approved', mode })}>
                {modeLabel(mode)}
              </button>
            )}
            <button type="button" class="button danger" onClick={denyWithReason}>
              <X size={18} aria-hidden /> Deny
            </button>
            <button type="button" class="button danger" onClick={() => void deny('abort')}>
              <Ban size={16} aria-hidden /> Deny and stop
            </button>
          </div>
        </>
      )}
    </section>
  );
}

/** In place of a request that is another one than was on the screen: an answer names its id, and would be to the new one. */
function Changed({ onLook }: { onLook: () => void }) {
  return (
    <div class="notice" role="alert">
      <span>The agent has changed this request.</span>
      <button type="button" class="button" onClick={onLook}>
        <Eye size={16} aria-hidden /> Look again
      </button>
    </div>
  );
}
