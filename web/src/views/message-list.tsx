/** The scrolled list of a conversation. Older messages are loaded while scrolling up, and newer ones while scrolling down. */

import { ArrowDown, ArrowUp } from 'lucide-preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type CacheSnapshot, Virtualizer, type VirtualizerHandle } from 'virtua';
import type { Session } from '../api/types.ts';
import { buildRows, isNewItem, type Row } from '../content/rows.ts';
import type { TimelineItem } from '../content/timeline-item.ts';
import { trimNewest, trimOldest } from '../state/conversation.ts';
import { sync } from '../state/hub-client.ts';
import { getFolds, getReading, updateReading } from '../state/reading.ts';
import { updateConversation } from '../state/store.ts';
import { MessageRow } from './message-row.tsx';
import { useHeldRow } from './use-held-row.ts';
import { useJumpTarget } from './use-jump-target.ts';

/** A scroll position within this distance of the end counts as the end. */
const END_TOLERANCE_PX = 48;
/** The height of the line above the first item. */
const START_MARGIN_PX = 64;
/** Further messages are loaded when the scroll position is within this distance of the first or the last message. */
const LOAD_DISTANCE_PX = 800;
/** Messages are dropped only when the scroll position has this distance to them. */
const TRIM_DISTANCE_PX = 8000;
/** A message to which the list jumps has this distance to the top. */
const JUMP_MARGIN_PX = 8;

/** The heights of a list that was not measured yet: about the height of a message. A lower value would render more messages than the screen shows. */
const UNMEASURED = [[], 64] as unknown as CacheSnapshot;

/** The measured heights of the list that was shown last. They are valid for the same session and rows. */
let keptHeights: { sessionId: string; firstKey: string | undefined; heights: CacheSnapshot } | null = null;

interface Props {
  session: Session;
  items: TimelineItem[];
  hasOlder: boolean;
  hasNewer: boolean;
  newestSeq: number;
}

export function MessageList({ session, items, hasOlder, hasNewer, newestSeq }: Props) {
  const { id: sessionId, metadata, active } = session;
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const [{ place: startPlace, seenSeq: startSeenSeq }] = useState(getReading(sessionId));
  const [newAfterSeq, setNewAfterSeq] = useState(startSeenSeq > 0 && newestSeq > startSeenSeq ? startSeenSeq : null);
  const folds = getFolds(sessionId);
  const rows = useMemo(() => buildRows(items, { folds, hasOlder, newAfterSeq }), [items, folds, hasOlder, newAfterSeq]);
  const indexOf = (key: string | undefined) => rows.findIndex(({ item }) => item.key === key);

  const [startHeights] = useState(() =>
    keptHeights?.sessionId === sessionId && keptHeights.firstKey === rows[0]?.item.key ? keptHeights.heights : undefined,
  );
  const isAtEnd = useRef(!hasNewer && indexOf(startPlace?.itemKey) === -1);
  const lastOffset = useRef(0);
  const firstKey = useRef(rows[0]?.item.key);
  const lastKey = useRef(rows.at(-1)?.item.key);
  const [isScrolledUp, setScrolledUp] = useState(!isAtEnd.current);
  const [isNewAbove, setNewAbove] = useState(false);
  const hasVisitedNew = useRef(false);
  const isLoading = useRef(false);
  const part = useRef(0);
  const shownPart = useRef(0);
  /** Whether the end of the conversation is visible. */
  const isEndVisible = ({ scrollTop, clientHeight, scrollHeight }: HTMLElement) =>
    !hasNewer && scrollTop + clientHeight >= scrollHeight - END_TOLERANCE_PX;
  /** Only scrolling up leaves the end. The end also moves when a message is measured or the container grows. */
  const updateAtEnd = (element: HTMLElement) => {
    const { scrollTop } = element;
    if (scrollTop === lastOffset.current) return;
    if (isEndVisible(element)) isAtEnd.current = true;
    else if (scrollTop < lastOffset.current) isAtEnd.current = false;
    lastOffset.current = scrollTop;
  };
  // The user may have scrolled without a scroll event yet: new messages must not scroll back to the end. Read before the layout effects,
  // in which the list inside may correct the position.
  if (scroller.current) updateAtEnd(scroller.current);
  // Other messages have replaced all messages, so the measured heights are no longer valid.
  if (indexOf(firstKey.current) === -1 && indexOf(lastKey.current) === -1) part.current += 1;
  // When older messages are prepended, the visible messages must keep their position. At the end, `scrollToEnd` ensures that: with
  // `shift`, the list would keep its distance from the end until the next scroll event, and a short list has no scroll events.
  const keepsDistanceFromEnd = firstKey.current !== rows[0]?.item.key && !isAtEnd.current;

  const heldRow = useHeldRow(scroller, list, START_MARGIN_PX, indexOf);

  const scrollToEnd = () => {
    isAtEnd.current = true;
    heldRow.release();
    const element = scroller.current;
    if (!element) return;
    element.scrollTop = element.scrollHeight;
    // The scroll event of this position must not count as the user's.
    lastOffset.current = element.scrollTop;
  };
  useLayoutEffect(() => {
    firstKey.current = rows[0]?.item.key;
    const lastItem = rows.at(-1)?.item;
    // The user has sent a message and wants to see the message.
    if (lastItem?.kind === 'outgoing' && lastItem.key !== lastKey.current) isAtEnd.current = true;
    // The newest messages have replaced messages in the middle of the history.
    if (part.current !== shownPart.current && !hasNewer) isAtEnd.current = true;
    shownPart.current = part.current;
    lastKey.current = lastItem?.key;
    if (isAtEnd.current) scrollToEnd();
  }, [rows]);

  useLayoutEffect(() => {
    const index = indexOf(startPlace?.itemKey);
    if (startPlace && index !== -1 && scroller.current && list.current) {
      if (startHeights) scroller.current.scrollTop = START_MARGIN_PX + list.current.getItemOffset(index) + startPlace.offset;
      else heldRow.hold({ key: startPlace.itemKey, align: 'start', offset: -startPlace.offset });
    }
    return () => {
      if (list.current) keptHeights = { sessionId, firstKey: firstKey.current, heights: list.current.cache };
    };
  }, []);
  const rememberPlace = () => {
    const { current: handle } = list;
    if (!handle) return;
    const offset = handle.scrollOffset - START_MARGIN_PX;
    const index = handle.findItemIndex(handle.scrollOffset);
    const itemKey = rows[index]?.item.key;
    const seq = seqBefore(rows, index) ?? newestSeq;
    const place = isAtEnd.current || itemKey === undefined ? null : { itemKey, seq, offset: offset - handle.getItemOffset(index) };
    if (place !== null || getReading(sessionId).place !== null) updateReading(sessionId, { place });
  };

  /** Marks all messages as seen if the user sees the end. Otherwise, marks where the new messages start. */
  const updateSeen = () => {
    const { seenSeq } = getReading(sessionId);
    if (newestSeq <= seenSeq) return;
    if (seenSeq === 0 || (isAtEnd.current && document.visibilityState === 'visible')) updateReading(sessionId, { seenSeq: newestSeq });
    else setNewAfterSeq(seenSeq);
  };
  useEffect(() => {
    updateSeen();
    document.addEventListener('visibilitychange', updateSeen);
    return () => document.removeEventListener('visibilitychange', updateSeen);
  }, [newestSeq, isScrolledUp]);

  const loadMore = async () => {
    const { current: handle } = list;
    if (!handle || isLoading.current) return;
    const { scrollOffset, viewportSize, scrollSize } = handle;
    const isNearStart = hasOlder && scrollOffset <= LOAD_DISTANCE_PX;
    const isNearEnd = hasNewer && scrollOffset + viewportSize >= scrollSize - LOAD_DISTANCE_PX;
    if (!isNearStart && !isNearEnd) return;
    isLoading.current = true;
    await (isNearStart ? sync.fetchOlderMessages(sessionId) : sync.fetchNextMessages(sessionId));
    isLoading.current = false;
  };
  // Load more messages if the first page does not fill the screen, because the user cannot scroll a short page.
  useEffect(() => void loadMore(), [rows, hasOlder, hasNewer]);

  // Drops the oldest messages while the user is at the end and cannot see them. Runs only for a new message: otherwise older messages
  // that were loaded to fill the screen would be dropped and loaded again in a loop.
  useEffect(() => {
    if (isAtEnd.current && (list.current?.scrollOffset ?? 0) > TRIM_DISTANCE_PX) updateConversation(sessionId, trimOldest);
  }, [newestSeq]);

  // Drops the newest messages while the user reads far above them. Not together with the addition of older messages: the list stores
  // heights by index.
  useEffect(() => {
    const { scrollOffset = 0, viewportSize = 0, scrollSize = 0 } = list.current ?? {};
    if (scrollSize - scrollOffset - viewportSize > TRIM_DISTANCE_PX) updateConversation(sessionId, trimNewest);
  }, [rows]);

  const firstNew = rows.findIndex(({ newCount }) => newCount !== undefined);
  const updateNewAbove = () => {
    const { current: handle } = list;
    if (!handle || firstNew === -1) return setNewAbove(false);
    const isAbove = handle.getItemOffset(firstNew) + START_MARGIN_PX < handle.scrollOffset;
    if (!isAbove && handle.getItemOffset(firstNew) < handle.scrollOffset + handle.viewportSize) hasVisitedNew.current = true;
    setNewAbove(isAbove && !hasVisitedNew.current);
  };
  const onScroll = () => {
    if (!scroller.current) return;
    updateAtEnd(scroller.current);
    setScrolledUp(!isAtEnd.current);
    rememberPlace();
    updateNewAbove();
    void loadMore();
  };
  // Stays at the end when messages are measured, and when an on-screen keyboard or the composer takes space. When a message is measured,
  // the list corrects the scroll position. `onResize` of the list runs before the scroll event of this correction, which would otherwise
  // look like scrolling by the user.
  const onResize = useRef(() => {});
  onResize.current = () => {
    const element = scroller.current;
    if (!element) return;
    if (isAtEnd.current) scrollToEnd();
    else if (!heldRow.update()) isAtEnd.current = isEndVisible(element);
    setScrolledUp(!isAtEnd.current);
    updateNewAbove();
  };
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => onResize.current());
    observer.observe(element);
    if (element.lastElementChild) observer.observe(element.lastElementChild);
    return () => observer.disconnect();
  }, [part.current]);

  const showRow = (index: number, align: 'start' | 'center') => {
    isAtEnd.current = false;
    const key = rows[index]?.item.key;
    if (key !== undefined) heldRow.hold(align === 'start' ? { key, align, offset: JUMP_MARGIN_PX } : { key, align });
  };
  const hitKey = useJumpTarget(sessionId, items, rows, showRow);

  const renderRow = (row: Row) => (
    <MessageRow key={row.item.key} row={row} sessionId={sessionId} metadata={metadata} isActive={active} isHit={row.item.key === hitKey} />
  );

  const showNew = () => {
    hasVisitedNew.current = true;
    setNewAbove(false);
    showRow(firstNew, 'start');
  };
  const showNewest = () => {
    const isNewBelow = firstNew !== -1 && list.current && list.current.getItemOffset(firstNew) > list.current.scrollOffset;
    if (unseenCount > 0 && isNewBelow) {
      updateReading(sessionId, { seenSeq: newestSeq });
      showNew();
      return;
    }
    isAtEnd.current = true;
    if (hasNewer) void sync.fetchNewestMessages(sessionId);
    else scrollToEnd();
  };
  // A user who expands an item, or shows all of its text, reads on from there, so the list must not scroll to the end. After a button that
  // leaves the end in view, such as Cancel, `onResize` follows the end again.
  const onClick = ({ target }: MouseEvent) => {
    const row = (target as Element).closest('summary, .quiet, .turn-line')?.closest<HTMLElement>('[data-key]');
    if (!row || !scroller.current) return;
    isAtEnd.current = false;
    // Shortly after scrolling, the list takes the growth of a row that begins above the view for growth above the view.
    const offset = row.getBoundingClientRect().top - scroller.current.getBoundingClientRect().top;
    if (offset < 0) heldRow.hold({ key: row.dataset.key ?? '', align: 'start', offset });
  };

  const unseenCount = isScrolledUp && !hasNewer ? countNew(rows, getReading(sessionId).seenSeq) : 0;
  return (
    <div class="messages-container">
      <div class="messages" ref={scroller} onClickCapture={onClick} tabIndex={0} role="log" aria-live="off" aria-label="Conversation">
        <div class="messages-start">{hasOlder ? 'Loading older messages …' : 'Start of the conversation'}</div>
        <Virtualizer
          key={part.current}
          ref={list}
          scrollRef={scroller}
          shift={keepsDistanceFromEnd}
          onScroll={onScroll}
          onResize={() => onResize.current()}
          startMargin={START_MARGIN_PX}
          data={rows}
          cache={startHeights && part.current === 0 ? startHeights : UNMEASURED}
        >
          {renderRow}
        </Virtualizer>
      </div>
      {isNewAbove && (
        <button type="button" class="button scroll-to-new" onClick={showNew}>
          <ArrowUp size={16} /> {rows[firstNew]?.newCount} new
        </button>
      )}
      {isScrolledUp && (
        <button
          type="button"
          class={unseenCount > 0 ? 'button primary scroll-to-end' : 'button scroll-to-end'}
          aria-label={unseenCount > 0 ? `Newest: ${unseenCount} new` : 'Newest'}
          onClick={showNewest}
        >
          <ArrowDown size={16} /> {unseenCount > 0 ? `${unseenCount} new` : 'Newest'}
        </button>
      )}
    </div>
  );
}

const countNew = (rows: readonly Row[], seenSeq: number): number =>
  seenSeq === 0 ? 0 : rows.filter(({ item }) => isNewItem(item, seenSeq)).length;

/** Returns the seq of a row, or of the last row before it that has a stored message. */
function seqBefore(rows: readonly Row[], index: number): number | undefined {
  for (let at = index; at >= 0; at -= 1) {
    const seq = rows[at]?.item.seq;
    if (seq !== undefined) return seq;
  }
  return undefined;
}
