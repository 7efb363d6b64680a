/** What was said, newest at the bottom; older messages are read as they are scrolled to. */

import { ArrowDown } from 'lucide-preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Virtualizer, type VirtualizerHandle } from 'virtua';
import type { Session } from '../api/types.ts';
import { wordsOf } from '../content/markup.ts';
import { timeline } from '../content/timeline.ts';
import { sync } from '../hub.ts';
import { own } from '../own.ts';
import { withoutOldest } from '../state/conversation.ts';
import { changeConversation } from '../state/store.ts';
import { EMPTY_CONVERSATION } from '../state/types.ts';
import { Boundary } from '../ui/boundary.tsx';
import { Read } from '../ui/pieces.tsx';
import { useSelect } from '../ui/use-select.ts';
import { ItemView } from './item.tsx';

/** So close to an end, in pixels, counts as being there. */
const NEAR = 48;
/** So close to the top older messages are read, in pixels. */
const EARLY = 800;
/** So far from the top, in pixels, older messages may be let go. */
const FAR = 8000;

/** So many characters of what the agent says are spoken by a screen reader at once. */
const SPOKEN = 300;

/** The column of a session's messages. */
export function Messages({ session }: { session: Session }) {
  const { id, active, thinking } = session;
  const { messages, outgoing, hasOlder, reading } = useSelect(({ conversations }) => own(conversations, id) ?? EMPTY_CONVERSATION);
  const completed = session.agentState?.completedRequests;
  const items = useMemo(
    () => timeline({ messages, outgoing, hasOlder, completed }, { active, thinking }),
    [messages, outgoing, hasOlder, completed, active, thinking],
  );
  const last = items.findLast((item) => item.kind === 'text')?.text;
  const spoken = useMemo(() => last && `The agent says: ${wordsOf(last, SPOKEN)}`, [last]);
  return (
    <Read reading={messages.length > 0 ? { status: 'ready' } : reading} label="Reading the messages" onRetry={() => void sync.conversation(id)}>
      {items.length === 0 ? (
        <div class="empty chat-empty">
          <h2>Nothing was said yet</h2>
          <p>{active ? 'Write what the agent should do.' : 'Resume the session to write to its agent.'}</p>
        </div>
      ) : (
        <>
          <Column sessionId={id} items={items} hasOlder={hasOlder} newest={messages.at(-1)?.seq} />
          <p class="hidden-visually" role="status">
            {spoken}
          </p>
        </>
      )}
    </Read>
  );
}

interface ColumnProps {
  sessionId: string;
  items: ReturnType<typeof timeline>;
  hasOlder: boolean;
  /** The number of the newest message. */
  newest: number | undefined;
}

function Column({ sessionId, items, hasOlder, newest }: ColumnProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const isAtEnd = useRef(true);
  const lastOffset = useRef(0);
  const lastHeight = useRef(0);
  const firstKey = useRef(items[0]?.key);
  const lastKey = useRef(items.at(-1)?.key);
  const [isAway, setAway] = useState(false);
  const reading = useRef(false);
  // Older messages come in above: what is on the screen must stay where it is.
  const isPrepended = firstKey.current !== items[0]?.key;

  const toEnd = () => {
    isAtEnd.current = true;
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  useLayoutEffect(() => {
    firstKey.current = items[0]?.key;
    const last = items.at(-1);
    // Who sends something wants to see it.
    if (last?.kind === 'outgoing' && last.key !== lastKey.current) isAtEnd.current = true;
    lastKey.current = last?.key;
    if (isAtEnd.current) toEnd();
  }, [items]);

  const readOlder = async () => {
    const handle = list.current;
    if (!handle || !hasOlder || reading.current || handle.scrollOffset > EARLY) return;
    reading.current = true;
    await sync.older(sessionId);
    reading.current = false;
  };
  // A first page that does not fill the screen cannot be scrolled.
  useEffect(() => void readOlder(), [items, hasOlder]);

  // Who is at the end, far from the oldest, does not see them go. They go only when something new has come: what is read
  // because the screen has room would otherwise go, and be read, for ever.
  useEffect(() => {
    if (isAtEnd.current && (list.current?.scrollOffset ?? 0) > FAR) changeConversation(sessionId, withoutOldest);
  }, [newest]);

  const onScroll = (offset: number) => {
    const element = scroller.current;
    if (!element) return;
    const { clientHeight, scrollHeight } = element;
    // While messages are measured the end moves away by itself, and a place that grows moves up what it shows: only who
    // scrolls up leaves the end.
    if (offset + clientHeight >= scrollHeight - NEAR) isAtEnd.current = true;
    else if (offset < lastOffset.current && clientHeight === lastHeight.current) isAtEnd.current = false;
    lastOffset.current = offset;
    lastHeight.current = clientHeight;
    setAway(!isAtEnd.current);
    void readOlder();
  };
  // The end moves away while messages are measured, and when a phone's keyboard or a growing composer takes room away. The
  // list's own way to its end would go on for a moment, and take along who scrolls up meanwhile.
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => isAtEnd.current && toEnd());
    observer.observe(element);
    if (element.lastElementChild) observer.observe(element.lastElementChild);
    return () => observer.disconnect();
  }, []);

  return (
    <div class="messages-place">
      <div class="messages" ref={scroller} tabIndex={0} role="log" aria-live="off" aria-label="Conversation">
        <div class="messages-start">{hasOlder ? 'Reading older messages …' : 'The beginning'}</div>
        <Virtualizer ref={list} scrollRef={scroller} shift={isPrepended} onScroll={onScroll} startMargin={36}>
          {items.map((item) => (
            <div key={item.key} class="message">
              <Boundary>
                <ItemView item={item} sessionId={sessionId} />
              </Boundary>
            </div>
          ))}
        </Virtualizer>
      </div>
      {isAway && (
        <button type="button" class="button to-end" onClick={toEnd}>
          <ArrowDown size={16} aria-hidden /> Newest
        </button>
      )}
    </div>
  );
}
