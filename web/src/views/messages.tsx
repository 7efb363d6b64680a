/** The messages of a session, newest at the bottom. Older messages are loaded while scrolling up. */

import { ArrowDown } from 'lucide-preact';
import { type MutableRef, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type CacheSnapshot, Virtualizer, type VirtualizerHandle } from 'virtua';
import type { Session } from '../api/types.ts';
import { markdownToText } from '../content/render-markdown.ts';
import { buildTimeline, type TextItem } from '../content/timeline.ts';
import { trimOldest } from '../state/conversation.ts';
import { getOwn } from '../state/get-own.ts';
import { sync } from '../state/hub-client.ts';
import { updateConversation } from '../state/store.ts';
import { EMPTY_CONVERSATION } from '../state/types.ts';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { ListItemKey } from '../ui/expanded.ts';
import { LoadGate } from '../ui/loading.tsx';
import { useSelector } from '../state/use-selector.ts';
import { TimelineItemView } from './timeline-item.tsx';

/** A scroll position within this distance of the end counts as the end. */
const END_TOLERANCE_PX = 48;
/** The height of the line above the first item. */
const START_MARGIN_PX = 36;
/** Older messages are loaded when the scroll position is within this distance of the top. */
const LOAD_OLDER_PX = 800;
/** The oldest messages are dropped only when the scroll position is this far below the top. */
const TRIM_DISTANCE_PX = 8000;

/** Limit on the characters of an agent's text that screen readers announce. */
const MAX_ANNOUNCED_LENGTH = 300;

/** A scroll position that is not the end of the conversation. */
export interface ReadingPlace {
  /** The key of the first visible item. */
  itemKey: string;
  /** How much of this item is above the visible area, in pixels. */
  offset: number;
  /** The measured heights of the items. The heights are valid while the first item has the key `firstKey`. */
  firstKey?: string | undefined;
  heights?: CacheSnapshot | undefined;
}

export function Messages({ session, readingPlace }: { session: Session; readingPlace: MutableRef<ReadingPlace | null> }) {
  const { id, active, thinking } = session;
  const { messages, outgoing, live, hasOlder, loadState } = useSelector(
    ({ conversations }) => getOwn(conversations, id) ?? EMPTY_CONVERSATION,
  );
  const { requests, completedRequests: completed, queuedMessages: queued } = session.agentState ?? {};
  const items = useMemo(
    () => buildTimeline({ messages, outgoing, live, hasOlder, requests, completed, queued }, { active, thinking }),
    [messages, outgoing, live, hasOlder, requests, completed, queued, active, thinking],
  );
  const lastText = items.findLast((item): item is TextItem => item.kind === 'text' && !item.isLive)?.text;
  const announcement = useMemo(() => lastText && `The agent says: ${markdownToText(lastText, MAX_ANNOUNCED_LENGTH)}`, [lastText]);
  return (
    <LoadGate
      loadState={messages.length > 0 ? { status: 'ready' } : loadState}
      label="Loading the messages"
      onRetry={() => void sync.fetchNewestMessages(id)}
    >
      {items.length === 0 ? (
        <div class="empty chat-empty">
          <h2>No messages yet</h2>
          <p>{active ? 'Tell the agent what to do.' : 'Resume the session to send messages.'}</p>
        </div>
      ) : (
        <>
          <MessageList session={session} items={items} hasOlder={hasOlder} newestSeq={messages.at(-1)?.seq} readingPlace={readingPlace} />
          <p class="visually-hidden" role="status">
            {announcement}
          </p>
        </>
      )}
    </LoadGate>
  );
}

interface MessageListProps {
  session: Session;
  items: ReturnType<typeof buildTimeline>;
  hasOlder: boolean;
  newestSeq: number | undefined;
  /** Where the list is scrolled to at first; null for the end. Updated while the user scrolls. */
  readingPlace: MutableRef<ReadingPlace | null>;
}

function MessageList({ session, items, hasOlder, newestSeq, readingPlace }: MessageListProps) {
  const { id: sessionId } = session;
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const [startPlace] = useState(readingPlace.current);
  const [startHeights] = useState(startPlace?.firstKey === items[0]?.key ? startPlace?.heights : undefined);
  const isAtEnd = useRef(!items.some(({ key }) => key === startPlace?.itemKey));
  const lastOffset = useRef(0);
  const lastHeight = useRef(0);
  const firstKey = useRef(items[0]?.key);
  const lastKey = useRef(items.at(-1)?.key);
  const [isScrolledUp, setScrolledUp] = useState(false);
  const isLoadingOlder = useRef(false);
  // When older messages are prepended, the visible messages must keep their position. At the end, `scrollToEnd` ensures that: with
  // `shift`, the list would keep its distance from the end until the next scroll event, and a short list has no scroll events.
  const keepsDistanceFromEnd = firstKey.current !== items[0]?.key && !isAtEnd.current;

  const scrollToEnd = () => {
    isAtEnd.current = true;
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  useLayoutEffect(() => {
    firstKey.current = items[0]?.key;
    const lastItem = items.at(-1);
    // The user has sent a message and wants to see the message.
    if (lastItem?.kind === 'outgoing' && lastItem.key !== lastKey.current) isAtEnd.current = true;
    lastKey.current = lastItem?.key;
    if (isAtEnd.current) scrollToEnd();
  }, [items]);

  useLayoutEffect(() => {
    const index = items.findIndex(({ key }) => key === startPlace?.itemKey);
    if (startPlace && index !== -1 && scroller.current && list.current) {
      scroller.current.scrollTop = START_MARGIN_PX + list.current.getItemOffset(index) + startPlace.offset;
    }
    return () => {
      if (readingPlace.current) Object.assign(readingPlace.current, { firstKey: firstKey.current, heights: list.current?.cache });
    };
  }, []);
  const rememberPlace = () => {
    const { current: handle } = list;
    if (!handle) return;
    const offset = handle.scrollOffset - START_MARGIN_PX;
    const index = handle.findItemIndex(offset);
    const item = items[index];
    readingPlace.current = isAtEnd.current || !item ? null : { itemKey: item.key, offset: offset - handle.getItemOffset(index) };
  };

  const loadOlder = async () => {
    const handle = list.current;
    if (!handle || !hasOlder || isLoadingOlder.current || handle.scrollOffset > LOAD_OLDER_PX) return;
    isLoadingOlder.current = true;
    await sync.fetchOlderMessages(sessionId);
    isLoadingOlder.current = false;
  };
  // Load more messages if the first page does not fill the screen, because the user cannot scroll a short page.
  useEffect(() => void loadOlder(), [items, hasOlder]);

  // Drops the oldest messages while the user is at the end and cannot see them. Runs only for a new message: otherwise older messages
  // that were loaded to fill the screen would be dropped and loaded again in a loop.
  useEffect(() => {
    if (isAtEnd.current && (list.current?.scrollOffset ?? 0) > TRIM_DISTANCE_PX) updateConversation(sessionId, trimOldest);
  }, [newestSeq]);

  /** Whether the end is visible. */
  const isEndVisible = ({ scrollTop, clientHeight, scrollHeight }: HTMLElement) =>
    scrollTop + clientHeight >= scrollHeight - END_TOLERANCE_PX;
  const onScroll = (offset: number) => {
    const element = scroller.current;
    if (!element) return;
    const { clientHeight } = element;
    // Only scrolling up leaves the end. The end also moves when a message is measured or the container grows.
    if (isEndVisible(element)) isAtEnd.current = true;
    else if (offset < lastOffset.current && clientHeight === lastHeight.current) isAtEnd.current = false;
    lastOffset.current = offset;
    lastHeight.current = clientHeight;
    setScrolledUp(!isAtEnd.current);
    rememberPlace();
    void loadOlder();
  };
  // Stays at the end when messages are measured, and when an on-screen keyboard or the composer takes space. Sets the scroll position,
  // because `scrollToIndex` keeps scrolling for a moment and would work against a user who scrolls up.
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) scrollToEnd();
      else isAtEnd.current = isEndVisible(element);
      setScrolledUp(!isAtEnd.current);
    });
    observer.observe(element);
    if (element.lastElementChild) observer.observe(element.lastElementChild);
    return () => observer.disconnect();
  }, []);

  // A user who expands an item reads it from its start, so the list must not scroll to the end.
  const onClick = ({ target }: MouseEvent) => {
    if ((target as Element).closest('summary, .disclosure-more')) isAtEnd.current = false;
  };

  return (
    <div class="messages-container">
      <div class="messages" ref={scroller} onClickCapture={onClick} tabIndex={0} role="log" aria-live="off" aria-label="Conversation">
        <div class="messages-start">{hasOlder ? 'Loading older messages …' : 'Start of the conversation'}</div>
        <Virtualizer
          ref={list}
          scrollRef={scroller}
          shift={keepsDistanceFromEnd}
          onScroll={onScroll}
          startMargin={START_MARGIN_PX}
          {...(startHeights ? { cache: startHeights } : {})}
        >
          {items.map((item) => (
            <div key={item.key} class="message">
              <ErrorBoundary>
                <ListItemKey.Provider value={`${sessionId} ${item.key}`}>
                  <TimelineItemView item={item} session={session} />
                </ListItemKey.Provider>
              </ErrorBoundary>
            </div>
          ))}
        </Virtualizer>
      </div>
      {isScrolledUp && (
        <button type="button" class="button scroll-to-end" onClick={scrollToEnd}>
          <ArrowDown size={16} aria-hidden /> Newest
        </button>
      )}
    </div>
  );
}
