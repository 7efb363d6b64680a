/** The pending permission requests of a session, with buttons to approve or deny them. */

import './pending-requests.css';
import { Download, Eye, ShieldQuestion } from 'lucide-preact';
import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { PendingRequest, Session } from '../api/types.ts';
import { formatSize } from '../content/file-size.ts';
import { formatJson } from '../content/format-json.ts';
import { validRequests } from '../content/permissions.ts';
import { parseArguments, parsePlan, parseQuestions } from '../content/tool-arguments.ts';
import { summarizeInput } from '../content/tool-summary.ts';
import * as actions from '../state/actions.ts';
import { deleteAnswerDraft, getAnswerDraft, updateAnswerDraft } from '../state/drafts.ts';
import { acceptEditsMode } from '../state/catalog.ts';
import { hasKeyboard } from '../ui/device.ts';
import { isDialogOpen, openDialog } from '../ui/dialog.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { Plan } from './plan.tsx';
import { Questions } from './questions.tsx';
import { RequestActions } from './request-actions.tsx';
import { RequestContent } from './request-content.tsx';
import { InputSummary, ToolIcon } from './tool-call.tsx';
import { ArgumentList, ToolInput } from './tool-content.tsx';

/** The hub's limit for the reason of a denial, in characters. */
const MAX_REASON_LENGTH = 1000;
/** After a decision, the next request is disabled for this time, so that a double click cannot decide two requests. */
const CLICK_GUARD_MS = 600;

/**
 * Shows one request as a card, at first the oldest, and all others collapsed. A click on a collapsed request shows this request as the card.
 * The requests of an inactive session have no buttons, because only a connected CLI can receive an answer.
 */
export function PendingRequests({ session }: { session: Session }) {
  const requests = validRequests(session.agentState?.requests ?? {});
  const { metadata } = session;
  requests.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0));
  const [pinnedId, setPinnedId] = useState<string | null>(null);
  const openId = (requests.some(([id]) => id === pinnedId) ? pinnedId : requests[0]?.[0]) ?? null;
  const openIndex = requests.findIndex(([id]) => id === openId);
  // The open request must not change just before a click, even if a request with an earlier `createdAt` arrives.
  useEffect(() => setPinnedId(openId), [openId]);
  const container = useRef<HTMLDivElement>(null);
  const [scrollToId, setScrollToId] = useState<string | null>(null);
  // A card is higher than a collapsed request, and may extend beyond the visible area.
  useEffect(() => {
    if (scrollToId !== null) container.current?.querySelector('.request:not(.collapsed)')?.scrollIntoView({ block: 'nearest' });
  }, [scrollToId]);
  const [decidedId, setDecidedId] = useState<string | null>(null);
  const areDecisionsDisabled = decidedId !== null && openId !== null && decidedId !== openId;
  useEffect(() => {
    if (!areDecisionsDisabled) return;
    const timer = setTimeout(() => setDecidedId(null), CLICK_GUARD_MS);
    return () => clearTimeout(timer);
  }, [areDecisionsDisabled, openId]);
  const requestFocusMove = useFocusAfterDecision(requests.length, areDecisionsDisabled, container);
  const onDecide = () => {
    setDecidedId(openId);
    requestFocusMove();
  };
  const openRequest = (id: string) => {
    setPinnedId(id);
    setScrollToId(id);
  };
  // A held Enter key must decide only one request.
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.repeat && event.key === 'Enter') event.preventDefault();
  };
  return (
    <div role="region" aria-label="Requests" class="requests" ref={container} onKeyDown={onKeyDown}>
      <p class="visually-hidden" role="status">
        {session.active &&
          requests.length > 0 &&
          `The agent asks: ${requests[0]?.[1].tool ?? ''} ${summarizeInput(requests[0]?.[1].arguments)}`}
      </p>
      <OtherRequests requests={requests.slice(0, openIndex)} metadata={metadata} onOpen={openRequest} />
      {requests.slice(openIndex, openIndex + 1).map(([id, request]) => (
        <RequestCard key={id} session={session} id={id} request={request} areDecisionsDisabled={areDecisionsDisabled} onDecide={onDecide} />
      ))}
      <OtherRequests requests={requests.slice(openIndex + 1)} metadata={metadata} onOpen={openRequest} />
      {/* Shown instead of the other requests in a low window. */}
      {requests.length > 1 && (
        <p class="other-requests-count muted small">{requests.length === 2 ? '1 more request' : `${requests.length - 1} more requests`}</p>
      )}
    </div>
  );
}

/**
 * Moves the focus when the focused button disappears with a decided request: to the next request, or to the composer.
 * @returns a function that must be called for each decision
 */
function useFocusAfterDecision(count: number, areDecisionsDisabled: boolean, container: RefObject<HTMLElement>): () => void {
  const isFocusPending = useRef(false);
  const hasDialog = isDialogOpen.value;
  useEffect(() => {
    if (!isFocusPending.current || hasDialog || areDecisionsDisabled || document.activeElement !== document.body) return;
    isFocusPending.current = false;
    const next = container.current?.querySelector<HTMLElement>('.request :is(button, input)');
    (next ?? document.getElementById(hasKeyboard.value ? 'composer' : 'main'))?.focus({ preventScroll: true });
  }, [count, hasDialog, areDecisionsDisabled]);
  return () => {
    isFocusPending.current = true;
  };
}

function requestTitle({ tool = 'a tool', arguments: input }: PendingRequest): string {
  if (parseQuestions(input).questions.length > 0) return 'Question from the agent';
  return parsePlan(tool, input) ? 'Plan of the agent' : `Allow ${tool}?`;
}

/** The requests before or after the open one. */
function OtherRequests({
  requests,
  metadata,
  onOpen,
}: {
  requests: [id: string, request: PendingRequest][];
  metadata: Session['metadata'];
  onOpen: (id: string) => void;
}) {
  return (
    <div class="other-requests">
      {requests.map(([id, request]) => (
        <CollapsedRequest key={id} request={request} metadata={metadata} onOpen={() => onOpen(id)} />
      ))}
    </div>
  );
}

function CollapsedRequest({ request, metadata, onOpen }: { request: PendingRequest; metadata: Session['metadata']; onOpen: () => void }) {
  const { tool = 'A tool', arguments: input } = request;
  const [question] = parseQuestions(input).questions;
  return (
    <section class="request collapsed" aria-label={`${tool} request`}>
      <button type="button" onClick={onOpen}>
        {question ? <ShieldQuestion size={16} aria-hidden /> : <ToolIcon name={tool} />}
        <span class="ellipsis">
          <EscapedText text={requestTitle(request)} />
        </span>
        <span class="ellipsis muted small">
          {question ? <EscapedText text={question.text} /> : <InputSummary input={input} metadata={metadata} />}
        </span>
      </button>
    </section>
  );
}

interface CardProps {
  session: Session;
  id: string;
  request: PendingRequest;
  /** Whether another request was approved or denied less than {@link CLICK_GUARD_MS} ago. */
  areDecisionsDisabled: boolean;
  /** Called for each decision, before the decision is sent. */
  onDecide: () => void;
}

function RequestCard({ session, id, request: published, areDecisionsDisabled, onDecide }: CardProps) {
  const [isBusy, setBusy] = useState(false);
  const publishedContent = useMemo(
    () => formatJson([published.tool, published.arguments, published.sessionRule, published.choices]),
    [published],
  );
  const [loaded, setLoaded] = useState<{ publishedContent: string; whole: actions.RequestContent } | null>(null);
  const whole = loaded?.publishedContent === publishedContent ? loaded.whole : undefined;
  const request = useMemo(() => (whole ? { ...published, arguments: whole.arguments } : published), [published, whole]);
  const { questions, otherFields } = useMemo(() => parseQuestions(request.arguments), [request]);
  const { edits } = useMemo(() => parseArguments(request.arguments), [request]);
  const plan = useMemo(() => parsePlan(request.tool ?? '', request.arguments), [request]);
  const [reviewedContent, setReviewedContent] = useState(publishedContent);
  const tool = request.tool ?? 'A tool';
  const isComplete = !published.shortened || whole !== undefined;
  const decide = async (errorTitle: string, operation: () => Promise<unknown>) => {
    if (isBusy) return;
    setBusy(true);
    onDecide();
    // After a success, the card stays busy until an event removes the request.
    if (await tryOrToast(errorTitle, operation)) deleteAnswerDraft(session.id, id);
    else setBusy(false);
  };
  const approve = (approval: actions.Approval, errorTitle = 'Could not approve the request') => {
    const answers = { ...approval.answers, ...(whole ? { proof: [whole.proof] } : {}) };
    const body = Object.keys(answers).length > 0 ? { ...approval, answers } : approval;
    return decide(errorTitle, () => actions.approve(session.id, id, body));
  };
  const answer = (answers: Record<string, string[]>) => void approve({ decision: 'approved', answers }, 'Could not send the answers');
  const deny = (decision: 'denied' | 'abort') => void decide('Could not deny the request', () => actions.deny(session.id, id, decision));
  const denyWithReason = () =>
    openDialog({
      title: plan ? 'Keep planning' : 'Deny the request',
      field: {
        label: plan ? 'What to change (optional)' : 'Reason for the agent (optional)',
        value: getAnswerDraft(session.id, id).reason,
        maxLength: MAX_REASON_LENGTH,
        isOptional: true,
        onInput: (reason) => updateAnswerDraft(session.id, id, { reason }),
      },
      action: plan ? 'Keep planning' : 'Deny',
      isDangerous: true,
      onConfirm: async (reason) => {
        onDecide();
        // Without `decide`, because the dialog shows the error.
        await actions.deny(session.id, id, 'denied', reason);
        deleteAnswerDraft(session.id, id);
      },
    });
  const reviewAgain = () => {
    // The draft belongs to the previous content of the request.
    deleteAnswerDraft(session.id, id);
    setReviewedContent(publishedContent);
  };
  const editsMode = plan || edits.length > 0 ? acceptEditsMode(session.metadata) : undefined;
  const body = (
    <RequestContent label="Requested action">{plan ? <Plan {...plan} /> : <ToolInput input={request.arguments} />}</RequestContent>
  );
  if (!session.active) {
    return (
      <section class="request" aria-label={`${tool} request`}>
        <h2>
          <ToolIcon name={tool} />
          <EscapedText text={requestTitle(request)} />
        </h2>
        {body}
        <p class="muted">The agent's CLI is not connected. You can answer when it is back.</p>
      </section>
    );
  }
  return (
    <section class="request" aria-label={`${tool} request`} aria-busy={isBusy}>
      <h2>
        {questions.length > 0 ? <ShieldQuestion size={16} aria-hidden /> : <ToolIcon name={tool} />}
        <span>
          <EscapedText text={requestTitle(request)} />
        </span>
        {(questions.length > 0 || plan) && (
          <span class="muted small mono">
            <EscapedText text={tool} />
          </span>
        )}
      </h2>
      <fieldset class="request-body" disabled={areDecisionsDisabled}>
        {publishedContent !== reviewedContent ? (
          <ChangedNotice onReview={reviewAgain} />
        ) : questions.length > 0 && isComplete ? (
          <Questions
            questions={questions}
            otherFields={<ArgumentList fields={otherFields} />}
            draft={getAnswerDraft(session.id, id)}
            onDraft={(changes) => updateAnswerDraft(session.id, id, changes)}
            onAnswers={answer}
            onDeny={() => deny('denied')}
          />
        ) : (
          <>
            {body}
            {published.shortened && !whole && (
              <ShortenedNotice
                size={published.shortened}
                load={(onPart) => actions.readRequestContent(session.id, id, onPart)}
                onLoad={(content) => setLoaded({ publishedContent, whole: content })}
              />
            )}
            <RequestActions
              request={request}
              isPlan={plan !== null}
              editsMode={editsMode}
              canApprove={isComplete}
              approve={approve}
              denyWithReason={denyWithReason}
              denyAndStop={() => deny('abort')}
            />
          </>
        )}
      </fieldset>
    </section>
  );
}

interface ShortenedNoticeProps {
  size: { parts: number; bytes: number };
  load: (onPart: (count: number) => void) => Promise<actions.RequestContent>;
  onLoad: (content: actions.RequestContent) => void;
}

/** Loads the rest of a request. Only a complete request can be approved. */
function ShortenedNotice({ size: { parts, bytes }, load, onLoad }: ShortenedNoticeProps) {
  const [count, setCount] = useState<number | null>(null);
  const start = async () => {
    setCount(0);
    const isLoaded = await tryOrToast('Could not load the request', async () => onLoad(await load(setCount)));
    if (!isLoaded) setCount(null);
  };
  return (
    <div class="notice warn">
      <span>Only a part of this request is shown. Load all of it ({formatSize(bytes)}) to approve it.</span>
      <button type="button" class="button" disabled={count !== null} onClick={() => void start()}>
        <Download size={16} aria-hidden /> {count === null ? 'Load all' : `Loading ${Math.round((100 * count) / parts)} % …`}
      </button>
    </div>
  );
}

/** Shown in place of a request that has changed, because a decision would apply to content that the user has not seen. */
function ChangedNotice({ onReview }: { onReview: () => void }) {
  return (
    <div class="notice" role="alert">
      <span>The agent changed this request.</span>
      <button type="button" class="button" onClick={onReview}>
        <Eye size={16} aria-hidden /> Review again
      </button>
    </div>
  );
}
