/** What the agent asks before it acts: one card a request, answered with one touch. */

import './requests.css';
import { Ban, Check, ChevronDown, Eye, ShieldQuestion, X } from 'lucide-preact';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
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
/** For how long, in milliseconds, the request after an answered one takes no answer: a second click was meant for the first. */
const SETTLE_MS = 600;
/** So much, in pixels, may be out of sight at the end of a request without a word. */
const CUT = 8;

/** The requests of a session that wait, oldest first: one is open, the others are a line each. */
export function Requests({ session }: { session: Session }) {
  const requests = requestsOf(session.agentState?.requests ?? {});
  requests.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0));
  const [chosen, setChosen] = useState<string | null>(null);
  const open = (requests.some(([id]) => id === chosen) ? chosen : requests[0]?.[0]) ?? null;
  // One that comes, or says that it is older, does not take the place under somebody's finger.
  useEffect(() => setChosen(open), [open]);
  const place = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<string | null>(null);
  // What was a line has a card now, which may be longer than its place.
  useEffect(() => {
    if (opened !== null) place.current?.querySelector('.request:not(.folded)')?.scrollIntoView({ block: 'nearest' });
  }, [opened]);
  const [answered, setAnswered] = useState<string | null>(null);
  const isFresh = answered !== null && open !== null && answered !== open;
  useEffect(() => {
    if (!isFresh) return;
    const timer = setTimeout(() => setAnswered(null), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [isFresh, open]);
  const focusNext = useFocusAfterAnswer(requests.length, isFresh, place);
  const onAnswer = () => {
    setAnswered(open);
    focusNext();
  };
  const openLine = (id: string) => {
    setChosen(id);
    setOpened(id);
  };
  // A key that is held down answers one request.
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.repeat && event.key === 'Enter') event.preventDefault();
  };
  return (
    <div role="region" aria-label="Requests" class="requests" ref={place} onKeyDown={onKeyDown}>
      <p class="hidden-visually" role="status">
        {requests.length > 0 && `The agent asks: ${requests[0]?.[1].tool ?? ''} ${summarize(requests[0]?.[1].arguments)}`}
      </p>
      {requests.map(([id, request]) =>
        id === open ? (
          <RequestCard key={id} session={session} id={id} request={request} isFresh={isFresh} onAnswer={onAnswer} />
        ) : (
          <RequestLine key={id} request={request} onOpen={() => openLine(id)} />
        ),
      )}
    </div>
  );
}

/**
 * With an answer its button goes. Who answered by keys goes on with the next request, or with the line to write.
 * @returns to be called with each answer
 */
function useFocusAfterAnswer(count: number, isFresh: boolean, place: RefObject<HTMLElement>): () => void {
  const isDue = useRef(false);
  const isAway = isAsking.value;
  useEffect(() => {
    if (!isDue.current || isAway || isFresh || document.activeElement !== document.body) return;
    isDue.current = false;
    const next = place.current?.querySelector<HTMLElement>('.request :is(button, input)');
    (next ?? document.getElementById(hasKeyboard.value ? 'composer' : 'main'))?.focus({ preventScroll: true });
  }, [count, isAway, isFresh]);
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
  /** Whether it has just taken the place of one that was answered. */
  isFresh: boolean;
  onAnswer: () => void;
}

function RequestCard({ session, id, request, isFresh, onAnswer }: CardProps) {
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
      <fieldset class="request-answers" disabled={isFresh}>
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
            <Whole input={request.arguments} />
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
      </fieldset>
    </section>
  );
}

/** All of what a request would do, and a word while a part of it is out of sight: some phones show no scroll bar. */
function Whole({ input }: { input: unknown }) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [isCut, setCut] = useState(false);
  const look = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    setCut(scrollHeight - scrollTop - clientHeight > CUT);
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(look);
    for (const { current } of [box, content]) if (current) observer.observe(current);
    return () => observer.disconnect();
  }, []);
  const showMore = () => box.current?.scrollBy({ top: box.current.clientHeight * 0.8 });
  return (
    <>
      <div class="request-input" tabIndex={0} role="region" aria-label="What it would do" ref={box} onScroll={look}>
        <div ref={content}>
          <Input input={input} />
        </div>
      </div>
      {isCut && (
        <button type="button" class="button request-more" onClick={showMore}>
          <ChevronDown size={16} aria-hidden /> More of it below
        </button>
      )}
    </>
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
