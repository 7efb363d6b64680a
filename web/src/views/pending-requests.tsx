/** The pending permission requests of a session: one as a card, the others as lines. */

import './pending-requests.css';
import { ChevronDown, ChevronUp, ShieldQuestion } from 'lucide-preact';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { PendingRequest, Session } from '../api/types.ts';
import { validRequests } from '../content/permissions.ts';
import { parseQuestions } from '../content/tool-arguments.ts';
import { getOwn } from '../state/get-own.ts';
import { hasKeyboard } from '../ui/device.ts';
import { isDialogOpen } from '../ui/dialog.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { announceAnswered } from './answered-elsewhere.ts';
import { CLICK_GUARD_MS, RequestCard, titleOf } from './request-card.tsx';
import { useRequestKeys } from './request-keys.ts';
import { InputSummary } from './tool-call.tsx';
import { ToolIcon } from './tool-icon.tsx';

/** Shows one request as a card, at first the oldest, below all others. A click on another request shows that request as the card. */
export function PendingRequests({ session }: { session: Session }) {
  const requests = validRequests(session.agentState?.requests ?? {});
  requests.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0));
  const [pinnedId, setPinnedId] = useState<string | null>(null);
  const [openId, openRequest] = requests.find(([id]) => id === pinnedId) ?? requests[0] ?? [];
  // The open request must not change just before a click, even if a request with an earlier `createdAt` arrives. Not `useEffect`, which may
  // run after the next key, and would undo what this key did.
  useLayoutEffect(() => setPinnedId(openId ?? null), [openId]);
  const container = useRef<HTMLDivElement>(null);
  const [decidedId, setDecidedId] = useState<string | null>(null);
  const isGuarded = decidedId !== null && openId !== undefined && decidedId !== openId;
  useEffect(() => {
    if (!isGuarded) return;
    const timer = setTimeout(() => setDecidedId(null), CLICK_GUARD_MS);
    return () => clearTimeout(timer);
  }, [isGuarded, openId]);
  const moveFocusAfterDecision = useFocusAfterDecision(requests.length, isGuarded, container);
  useAnnouncement(session, openId, openRequest);
  const index = requests.findIndex(([id]) => id === openId);
  const showRequest = (position: number) => setPinnedId(requests[position]?.[0] ?? null);
  useRequestKeys((key) => {
    const nextIndex = index + (key === 'j' ? 1 : -1);
    if ((key !== 'j' && key !== 'k') || !requests[nextIndex]) return false;
    showRequest(nextIndex);
    return true;
  });
  const onDecide = () => {
    setDecidedId(openId ?? null);
    moveFocusAfterDecision();
  };
  // A held Enter key must decide only one request.
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.repeat && event.key === 'Enter') event.preventDefault();
  };
  const others = requests.filter(([id]) => id !== openId);
  return (
    <div role="region" aria-label="Requests" class="requests" ref={container} onKeyDown={onKeyDown}>
      <p class="visually-hidden" role="status">
        {session.active && openRequest && `The agent asks: ${titleOf(openRequest)}`}
      </p>
      {others.length > 0 && (
        <div class="other-requests">
          {others.map(([id, request]) => (
            <CollapsedRequest key={id} request={request} metadata={session.metadata} onOpen={() => setPinnedId(id)} />
          ))}
        </div>
      )}
      {openId !== undefined && openRequest && (
        <RequestCard
          key={openId}
          session={session}
          requestId={openId}
          request={openRequest}
          isActive
          isGuarded={isGuarded}
          onDecide={onDecide}
          pager={others.length > 0 && <Pager index={index} count={requests.length} onShow={showRequest} />}
        />
      )}
    </div>
  );
}

/** The step of the {@link Pager} button that was pressed last, -1 or 1. The press shows another card with a new pager, which focuses the same button. */
let pressedStep: number | null = null;

/** The buttons for the previous and the next request. In a low window, the buttons replace the list of the other requests. */
function Pager({ index, count, onShow }: { index: number; count: number; onShow: (index: number) => void }) {
  const pager = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (pressedStep === null) return;
    const [previous, next] = pager.current?.querySelectorAll('button') ?? [];
    const [pressed, other] = pressedStep < 0 ? [previous, next] : [next, previous];
    (pressed?.disabled ? other : pressed)?.focus({ preventScroll: true });
    pressedStep = null;
  }, []);
  const step = (by: number) => {
    pressedStep = by;
    onShow(index + by);
  };
  return (
    <div class="request-pager" ref={pager}>
      <button type="button" class="button quiet icon" aria-label="Previous request" disabled={index === 0} onClick={() => step(-1)}>
        <ChevronUp size={18} />
      </button>
      <span class="muted small">
        {index + 1} of {count}
      </span>
      <button type="button" class="button quiet icon" aria-label="Next request" disabled={index === count - 1} onClick={() => step(1)}>
        <ChevronDown size={18} />
      </button>
    </div>
  );
}

/** Says what happened to the open request if it disappears without an answer from this page. */
function useAnnouncement({ id: sessionId, agentState }: Session, openId: string | undefined, request: PendingRequest | undefined): void {
  const previous = useRef<{ id: string; title: string } | null>(null);
  useEffect(() => {
    const shown = previous.current;
    previous.current = openId !== undefined && request ? { id: openId, title: titleOf(request) } : null;
    if (!shown || getOwn(agentState?.requests ?? {}, shown.id)) return;
    announceAnswered(sessionId, shown.id, shown.title, getOwn(agentState?.completedRequests ?? {}, shown.id));
  }, [sessionId, agentState, openId, request]);
}

/**
 * Moves the focus when the focused button disappears with a decided request: to the next request, or to the composer.
 * @returns a function that must be called for each decision
 */
function useFocusAfterDecision(count: number, isGuarded: boolean, container: RefObject<HTMLElement>): () => void {
  const isFocusPending = useRef(false);
  const hasDialog = isDialogOpen.value;
  useEffect(() => {
    if (!isFocusPending.current || hasDialog || isGuarded || document.activeElement !== document.body) return;
    isFocusPending.current = false;
    const choices = '.request:not(.collapsed) :is(button, input):not(:disabled, .request-pager *)';
    const next = container.current?.querySelector<HTMLElement>(choices);
    (next ?? document.getElementById(hasKeyboard.value ? 'composer' : 'main'))?.focus({ preventScroll: true });
  }, [count, hasDialog, isGuarded]);
  return () => {
    isFocusPending.current = true;
  };
}

function CollapsedRequest({ request, metadata, onOpen }: { request: PendingRequest; metadata: Session['metadata']; onOpen: () => void }) {
  const { tool = 'A tool', arguments: input } = request;
  const [question] = parseQuestions(input).questions;
  return (
    <section class="request collapsed" aria-label={`${tool} request`}>
      <button type="button" onClick={onOpen}>
        {question ? <ShieldQuestion size={16} /> : <ToolIcon name={tool} />}
        <span class="ellipsis">{titleOf(request)}</span>
        <span class="ellipsis muted small">
          {question ? <EscapedText text={question.text} /> : <InputSummary input={input} metadata={metadata} />}
        </span>
      </button>
    </section>
  );
}
