/** The messages of a session, newest at the bottom. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import type { Session } from '../api/types.ts';
import { queueOf } from '../content/queue.ts';
import { reuseItems } from '../content/rows.ts';
import { buildTimeline } from '../content/timeline.ts';
import type { TextItem, TimelineItem } from '../content/timeline-item.ts';
import { getOwn } from '../state/get-own.ts';
import { sync } from '../state/hub-client.ts';
import { fetchMarkdownRenderer, isMarkdownSettled, markdownRenderer } from '../state/markdown.ts';
import { fetchMessagesAround } from '../state/messages-around.ts';
import { hasEnded } from '../state/sessions.ts';
import { getReading, isReadingRestored } from '../state/reading.ts';
import { connectionState, state } from '../state/store.ts';
import { type Conversation, EMPTY_CONVERSATION } from '../state/types.ts';
import { useSelector } from '../state/use-selector.ts';
import { ErrorNotice, LoadGate, Skeleton } from '../ui/loading.tsx';
import { whenIdle } from '../ui/when-idle.ts';
import { MessageList } from './message-list.tsx';

/** Limit on the characters of an agent's text that screen readers announce. */
const MAX_ANNOUNCED_LENGTH = 300;

const LOADING_LABEL = 'Loading the messages';

function emptyText(session: Session): string {
  if (session.active) return 'Tell the agent what to do.';
  if (hasEnded(session)) return 'Resume the session to send messages.';
  return `A message that you leave is sent when ${session.metadata?.host || 'the machine'} is back.`;
}

export function Messages({ session }: { session: Session }) {
  const { id } = session;
  const conversation = useSelector(({ conversations }) => getOwn(conversations, id) ?? EMPTY_CONVERSATION);
  const { messages, hasOlder, hasNewer, outgoing, loadState } = conversation;
  const sentId = outgoing.at(-1)?.localId;
  // The user has sent a message and wants to see the message, which follows the newest message.
  useEffect(() => {
    if (hasNewer && sentId !== undefined) void sync.fetchNewestMessages(id);
  }, [sentId]);
  const items = useTimeline(session, conversation);
  const place = useStoredPlace(id, conversation);
  const announcement = useAnnouncement(items);
  // The first fetch may have failed.
  useEffect(() => void fetchMarkdownRenderer(), [id]);
  return (
    <LoadGate
      loadState={messages.length > 0 ? { status: 'ready' } : loadState}
      label={LOADING_LABEL}
      onRetry={() => void sync.fetchNewestMessages(id)}
    >
      {place.failure !== undefined && !place.isSettled ? (
        <ErrorNotice text={place.failure} onRetry={place.retry} />
      ) : !place.isSettled || !isMarkdownSettled.value ? (
        <Skeleton label={LOADING_LABEL} lines={6} />
      ) : items.length === 0 ? (
        <div class="empty chat-empty">
          <h2>No messages yet</h2>
          <p>{emptyText(session)}</p>
        </div>
      ) : (
        <>
          <MessageList session={session} items={items} hasOlder={hasOlder} hasNewer={hasNewer} newestSeq={messages.at(-1)?.seq ?? 0} />
          <p class="visually-hidden" role="status">
            {announcement}
          </p>
        </>
      )}
    </LoadGate>
  );
}

/** Returns the start of the agent's last text, for screen readers. Not on the first screen, because Markdown takes time to parse. */
function useAnnouncement(items: TimelineItem[]): string | undefined {
  const lastText = items.findLast((item): item is TextItem => item.kind === 'text' && !item.isLive)?.text;
  const toText = markdownRenderer.value?.markdownToText;
  const [announcement, setAnnouncement] = useState<string>();
  useEffect(() => {
    if (!toText || !lastText) return undefined;
    return whenIdle(() => setAnnouncement(`The agent says: ${toText(lastText, MAX_ANNOUNCED_LENGTH)}`));
  }, [toText, lastText]);
  return announcement;
}

/** Returns the items of a conversation. An item without a change stays the same object. */
function useTimeline({ id, agentState, active, thinking }: Session, conversation: Conversation): TimelineItem[] {
  const { messages, outgoing, live, hasOlder, hasNewer } = conversation;
  const { requests, completedRequests: completed, queuedMessages: queued } = agentState ?? {};
  const hasQueue = queueOf(agentState) !== null;
  const isStored = useSelector(({ storedSessions }) => getOwn(storedSessions, id)) !== undefined;
  const previous = useRef<TimelineItem[]>([]);
  return useMemo(() => {
    // Unsent messages and live text follow the newest message, and calls in the middle of the history do not run.
    const end = hasNewer ? { outgoing: [], live: [] } : { outgoing, live };
    const activity = hasNewer ? { active: false, thinking: false } : { active, thinking, isStored };
    const items = buildTimeline({ messages, ...end, hasOlder, hasNewer, requests, completed, queued }, activity);
    // The dock shows the messages of a queue that users can change.
    const shown = hasQueue ? items.filter((item) => item.kind !== 'user' || !item.isQueued) : items;
    previous.current = reuseItems(previous.current, shown);
    return previous.current;
  }, [messages, outgoing, live, hasOlder, hasNewer, requests, completed, queued, hasQueue, active, thinking, isStored]);
}

/** The pauses before the messages around the reading place are requested again. */
const PAUSES_MS = [500, 1500];

/**
 * Loads the messages around the stored reading place. `isSettled` is false until they are loaded. Without the hub, the conversation then opens at the
 * end of the stored messages. If the hub can be reached, `failure` says why they could not be loaded, and `retry` tries again.
 */
function useStoredPlace(id: string, { messages, loadState }: Conversation) {
  const [isSettled, setSettled] = useState(false);
  const [failure, setFailure] = useState<string>();
  const failures = useRef(0);
  const isLoaded = isReadingRestored.value && loadState.status === 'ready';
  const seq = isLoaded ? getReading(id).place?.seq : undefined;
  const isInPage = seq === undefined || seq >= (messages[0]?.seq ?? 0);
  const [attempt, setAttempt] = useState(0);
  const retry = () => setAttempt(attempt + 1);
  useEffect(() => {
    if (!isLoaded || isSettled) return undefined;
    if (seq === undefined || isInPage) {
      setSettled(true);
      return undefined;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isCurrent = true;
    setFailure(undefined);
    const handleError = (error: unknown) => {
      if (!isCurrent) return;
      const pause = connectionState.value === 'offline' ? undefined : PAUSES_MS[failures.current];
      failures.current += 1;
      if (pause !== undefined) timer = setTimeout(retry, pause);
      else if (getOwn(state.value.storedSessions, id) === undefined) setFailure(errorText(error));
      else setSettled(true);
    };
    void fetchMessagesAround(sync, id, seq).then(() => setSettled(true), handleError);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [isLoaded, isInPage, attempt]);
  return { isSettled: isSettled || (isLoaded && isInPage), failure, retry };
}
