/** A pending request as a card: what the agent wants to do, and the choices. The inbox shows this card for sessions that are not open. */

import './request-card.css';
import { Download, Eye, ShieldQuestion } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { PendingRequest, Session, SessionSummary } from '../api/types.ts';
import { summarizeEdits } from '../content/edit-summary.ts';
import { formatSize } from '../content/file-size.ts';
import { formatJson } from '../content/format-json.ts';
import { requestTitle } from '../content/request-title.ts';
import { parseArguments, parsePlan, parseQuestions } from '../content/tool-arguments.ts';
import * as actions from '../state/actions.ts';
import { acceptEditsMode } from '../state/catalog.ts';
import { deleteAnswerDraft, getAnswerDraft, updateAnswerDraft } from '../state/drafts.ts';
import { getOwn } from '../state/get-own.ts';
import { state } from '../state/store.ts';
import { isDialogOpen, openDialog } from '../ui/dialog.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { describeAnswer, trackDecision } from './answered-elsewhere.ts';
import { Plan } from './plan.tsx';
import { Questions } from './questions.tsx';
import { ChoiceNote, furtherApprovals, type RequestActions, RequestChoices } from './request-choices.tsx';
import { RequestContent } from './request-content.tsx';
import { ToolIcon } from './tool-icon.tsx';
import { ArgumentList, ToolInput } from './tool-content.tsx';

/** The hub's limit for the reason of a denial, in characters. */
const MAX_REASON_LENGTH = 1000;
/** For this time, a card ignores clicks after another decision, and keys after the card has appeared. */
export const CLICK_GUARD_MS = 600;

interface Props {
  session: Session | SessionSummary;
  requestId: string;
  request: PendingRequest;
  /** Whether the keys answer this request. At most one card of a page is active. */
  isActive: boolean;
  /** Whether another request was answered less than {@link CLICK_GUARD_MS} ago: a second click must not answer this request. */
  isGuarded: boolean;
  /** Called for each decision, before the decision is sent. */
  onDecide?: () => void;
  /** Buttons beside the title that show other requests. */
  pager?: ComponentChildren;
}

/** Returns the sentence that says what a request would do. */
export const titleOf = ({ tool = 'a tool', arguments: input }: PendingRequest) => requestTitle(tool, input, summarizeEdits(input));

/** The icon and the title of a request, the name of its tool, and the buttons that show other requests. */
function RequestHead({ request, pager }: { request: PendingRequest; pager: ComponentChildren }) {
  const { tool = 'A tool', arguments: input } = request;
  const hasQuestions = parseQuestions(input).questions.length > 0;
  return (
    <div class="request-head">
      <h2>
        {hasQuestions ? <ShieldQuestion size={16} /> : <ToolIcon name={tool} />}
        <span class="request-title">{titleOf(request)}</span>
        <span class="request-tool muted small mono">
          <EscapedText text={tool} />
        </span>
      </h2>
      {pager}
    </div>
  );
}

/** A card answers its request itself. The request of a session without a connected CLI cannot be answered. */
export function RequestCard({ session, requestId: id, request: published, isActive, isGuarded, onDecide, pager }: Props) {
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
  const hasChanged = publishedContent !== reviewedContent;
  const allSeenOrShowMore = useRef(() => false);
  const hasKeys =
    useKeyGuard(`${isGuarded} ${hasChanged} ${publishedContent}`) && isActive && session.active && !isGuarded && !hasChanged && !isBusy;
  const tool = request.tool ?? 'A tool';
  const isComplete = !published.shortened || whole !== undefined;
  const decide = async (errorTitle: string, operation: () => Promise<unknown>) => {
    if (isBusy) return;
    setBusy(true);
    onDecide?.();
    // After a success, the card stays busy until an event removes the request.
    if (await tryOrToast(errorTitle, () => trackDecision(session.id, id, operation))) deleteAnswerDraft(session.id, id);
    else setBusy(false);
  };
  const approve = (approval: actions.Approval, errorTitle = 'Could not approve the request') => {
    const answers = { ...approval.answers, ...(whole ? { proof: [whole.proof] } : {}) };
    const body = Object.keys(answers).length > 0 ? { ...approval, answers } : approval;
    return decide(errorTitle, () => actions.approve(session.id, id, body));
  };
  const deny = (decision: 'denied' | 'abort') => void decide('Could not deny the request', () => actions.deny(session.id, id, decision));
  const whyObsolete = () => {
    const { requests, completedRequests } = getOwn(state.value.sessions, session.id)?.agentState ?? {};
    return getOwn(requests ?? {}, id) ? undefined : `${describeAnswer(getOwn(completedRequests ?? {}, id))}. Your text was not sent.`;
  };
  const denyWithReason = () =>
    openDialog({
      title: plan ? 'Keep planning' : 'Deny the request',
      field: {
        label: plan ? 'What to change' : 'Reason for the agent',
        value: getAnswerDraft(session.id, id).reason,
        maxLength: MAX_REASON_LENGTH,
        isOptional: true,
        onInput: (reason) => updateAnswerDraft(session.id, id, { reason }),
      },
      action: plan ? 'Keep planning' : 'Deny',
      isDangerous: true,
      whyObsolete,
      onConfirm: async (reason) => {
        onDecide?.();
        // Without `decide`, because the dialog shows the error.
        await trackDecision(session.id, id, () => actions.deny(session.id, id, 'denied', reason));
        deleteAnswerDraft(session.id, id);
      },
    });
  const reviewAgain = () => {
    // The draft belongs to the previous content of the request.
    deleteAnswerDraft(session.id, id);
    setReviewedContent(publishedContent);
  };
  const requestActions: RequestActions = { approve, deny: () => deny('denied'), denyWithReason, denyAndStop: () => deny('abort') };
  const choices = {
    denyLabel: plan ? 'Keep planning' : 'Deny',
    reasonLabel: plan ? 'Say what to change …' : 'Deny with a reason …',
    actions: requestActions,
    isActive,
    hasKeys,
    allSeenOrShowMore: () => allSeenOrShowMore.current(),
  };
  const body = (
    <RequestContent key={String(whole !== undefined)} label="Requested action" allSeenOrShowMore={allSeenOrShowMore}>
      {plan ? <Plan {...plan} /> : <ToolInput input={request.arguments} />}
    </RequestContent>
  );
  if (!session.active) {
    return (
      <section class="request" aria-label={`${tool} request`}>
        <RequestHead request={request} pager={pager} />
        {body}
        <p class="muted">The agent is not connected. You can answer when it is back.</p>
      </section>
    );
  }
  const editsMode = plan || edits.length > 0 ? acceptEditsMode(session.metadata)?.id : undefined;
  return (
    <section class="request" aria-label={`${tool} request`} aria-busy={isBusy}>
      <RequestHead request={request} pager={pager} />
      <fieldset class="request-body" disabled={isGuarded}>
        {hasChanged ? (
          <ChangedNotice onReview={reviewAgain} />
        ) : questions.length > 0 && isComplete ? (
          <Questions
            questions={questions}
            otherFields={<ArgumentList fields={otherFields} />}
            draft={getAnswerDraft(session.id, id)}
            onDraft={(changes) => updateAnswerDraft(session.id, id, changes)}
            onAnswers={(answers) => void approve({ decision: 'approved', answers }, 'Could not send the answers')}
            choices={choices}
            allSeenOrShowMore={allSeenOrShowMore}
          />
        ) : (
          <>
            {body}
            {!isComplete && published.shortened && (
              <ShortenedNotice
                size={published.shortened}
                load={(onPart) => actions.readRequestContent(session.id, id, onPart)}
                onLoad={(content) => setLoaded({ publishedContent, whole: content })}
              />
            )}
            {request.needsChoice && isComplete && <ChoiceNote />}
            <RequestChoices
              {...choices}
              canApprove={isComplete}
              needsChoice={request.needsChoice}
              approvals={furtherApprovals(request, { isPlan: plan !== null, editsMode, approve, whyObsolete })}
            />
          </>
        )}
      </fieldset>
    </section>
  );
}

/** Whether keys may decide. False for {@link CLICK_GUARD_MS} after a change of `content` or the end of a dialog: a key was meant for what was shown before. */
function useKeyGuard(content: string): boolean {
  const [settled, setSettled] = useState('');
  const current = isDialogOpen.value ? '' : content;
  useEffect(() => {
    const timer = setTimeout(() => setSettled(current), CLICK_GUARD_MS);
    return () => clearTimeout(timer);
  }, [current]);
  return current !== '' && settled === current;
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
        <Download size={16} /> {count === null ? 'Load all' : `Loading ${Math.round((100 * count) / parts)} % …`}
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
        <Eye size={16} /> Review again
      </button>
    </div>
  );
}
