/** A row of the inbox: what waits, since when, and where. A request is answered in place. */

import { Check, CircleAlert, ShieldQuestion, X } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useRef } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { SessionSummary } from '../api/types.ts';
import { requestTitle } from '../content/request-title.ts';
import { shortenPath } from '../content/paths.ts';
import { parseQuestions } from '../content/tool-arguments.ts';
import { pluralize, summarizeInput, summaryPath } from '../content/tool-summary.ts';
import { getOwn } from '../state/get-own.ts';
import { markSeen } from '../state/hub-client.ts';
import { describeDeparture, type InboxItem, ownDecisions, type ShownItem } from '../state/inbox.ts';
import { formatDuration } from '../state/session-status.ts';
import { sessionTitle } from '../state/sessions.ts';
import { openInboxItem, state } from '../state/store.ts';
import { now } from '../ui/current-time.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { Skeleton } from '../ui/loading.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { lazy } from './lazy.tsx';
import { ToolIcon } from './tool-icon.tsx';

const InboxRequest = lazy(() => import('./inbox-request.tsx').then(({ InboxRequest }) => InboxRequest));

/** `others`: the number of other items of the session, which the list does not show. */
export function InboxRow({ shown: { item, leftAt }, others = 0 }: { shown: ShownItem; others?: number }) {
  const row = useRef<HTMLLIElement>(null);
  const keptHeight = useRef<number | null>(null);
  const hasLeft = leftAt !== null;
  // An expanded item keeps its height, so that no other item moves under the finger.
  if (!hasLeft) keptHeight.current = null;
  else keptHeight.current ??= row.current?.getBoundingClientRect().height ?? null;
  const isOpen = item.kind === 'request' && isOpenItem(item);
  return (
    <li
      ref={row}
      class={hasLeft ? 'inbox-item left' : 'inbox-item'}
      data-key={item.key}
      style={keptHeight.current === null ? undefined : { height: `${keptHeight.current}px` }}
    >
      {hasLeft ? (
        <div class="inbox-row">
          <Check size={18} />
          <RowText item={item} title={departureOf(item)} />
        </div>
      ) : item.kind === 'request' ? (
        <button type="button" class="inbox-row" aria-expanded={isOpen} onClick={() => toggle(item)}>
          <RowIcon item={item} />
          <RowText item={item} title={titleOf(item)} others={others} />
        </button>
      ) : (
        <div class="inbox-line">
          <Link href={`/sessions/${item.session.id}`} class="inbox-row">
            <RowIcon item={item} />
            <RowText item={item} title={titleOf(item)} others={others} />
          </Link>
          {item.kind !== 'unloaded-requests' && (
            <button
              type="button"
              class="button quiet icon"
              aria-label={`Dismiss ${sessionTitle(item.session)}`}
              onClick={() => dismiss(item)}
            >
              <X size={18} />
            </button>
          )}
        </div>
      )}
      {isOpen && (
        // With a new key, the focus leaves the card at once.
        <div key={String(hasLeft)} class="inbox-card" inert={hasLeft}>
          <Suspense fallback={<Skeleton label="Loading the request" />}>
            <InboxRequest item={item} hasLeft={hasLeft} />
          </Suspense>
        </div>
      )}
    </li>
  );
}

const isOpenItem = (item: Extract<InboxItem, { kind: 'request' }>) =>
  openInboxItem.value?.sessionId === item.session.id && openInboxItem.value.requestId === item.requestId;

function toggle(item: Extract<InboxItem, { kind: 'request' }>): void {
  // An agent may use the id of a request again.
  ownDecisions.delete(item.key);
  openInboxItem.value = isOpenItem(item) ? null : { sessionId: item.session.id, requestId: item.requestId };
}

function dismiss({ key, session, since }: InboxItem): void {
  ownDecisions.add(key);
  void tryOrToast('Could not dismiss the session', () => markSeen(session.id, since));
}

export function departureOf(item: InboxItem): string {
  const { inbox, summaries } = state.value;
  return describeDeparture(item, getOwn(inbox.outcomes, item.key), ownDecisions.has(item.key), getOwn(summaries, item.session.id));
}

function RowIcon({ item }: { item: InboxItem }) {
  if (item.kind === 'ready') return <Check size={18} />;
  if (item.kind === 'request' && parseQuestions(item.request.arguments).questions.length > 0) return <ShieldQuestion size={18} />;
  if (item.kind === 'request') return <ToolIcon name={item.request.tool ?? ''} />;
  return <CircleAlert size={18} />;
}

/** Returns what an item is, in one sentence. */
export function titleOf(item: InboxItem): string {
  switch (item.kind) {
    case 'request':
      return requestTitle(item.request.tool ?? 'a tool', item.request.arguments);
    case 'unloaded-requests':
      return pluralize(item.count, 'more request');
    case 'ready':
      return 'Ready';
    case 'failed':
      return 'Failed';
  }
}

/** Returns what exactly waits: the command, the path, the question, or the error. */
function detailOf(item: InboxItem): { text: string; isCode: boolean } {
  if (item.kind === 'failed') return { text: item.error, isCode: false };
  if (item.kind !== 'request') return { text: '', isCode: false };
  const { arguments: input } = item.request;
  const [question] = parseQuestions(input).questions;
  if (question) return { text: question.text, isCode: false };
  const path = summaryPath(input);
  return { text: path === undefined ? summarizeInput(input) : shortenPath(path), isCode: true };
}

function RowText({ item, title, others = 0 }: { item: InboxItem; title: string; others?: number }) {
  const { text, isCode } = detailOf(item);
  const { session, since } = item;
  return (
    <span class="inbox-text">
      <span class="inbox-title">
        <span class="inbox-what">{title}</span>
        {text !== '' && (
          <span class={isCode ? 'mono ellipsis inbox-detail' : 'ellipsis inbox-detail'}>
            <EscapedText text={text} />
          </span>
        )}
        <span class="inbox-since muted">{formatDuration(now.value - since) || 'now'}</span>
      </span>
      <span class="inbox-place muted">
        <span class="ellipsis name">{sessionTitle(session)}</span>
        <Host session={session} />
        {others > 0 && <span class="inbox-others">{others} more</span>}
      </span>
    </span>
  );
}

function Host({ session: { metadata } }: { session: SessionSummary }) {
  return metadata?.host ? <span class="ellipsis">on {metadata.host}</span> : null;
}
