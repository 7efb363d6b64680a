/** The card of a request in the inbox. */

import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { validRequests } from '../content/permissions.ts';
import { getOwn } from '../state/get-own.ts';
import { sync } from '../state/hub-client.ts';
import type { InboxItem } from '../state/inbox.ts';
import { isConnected, openSessionId } from '../state/store.ts';
import { useSelector } from '../state/use-selector.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { RequestCard } from './request-card.tsx';

interface Props {
  item: Extract<InboxItem, { kind: 'request' }>;
  /** Whether the request no longer waits. Its card stays for a moment, but cannot be used. */
  hasLeft: boolean;
}

/** Shows the request as it is in the full session, because events keep the full session current. */
export function InboxRequest({ item: { session: summary, requestId, request: lastRequest }, hasLeft }: Props) {
  const { id } = summary;
  useEffect(() => {
    if (!hasLeft) void sync.fetchSession(id);
  }, [id]);
  const session = useSelector(({ sessions }) => getOwn(sessions, id));
  const error = useSelector(({ sessionErrors }) => getOwn(sessionErrors, id));
  const hasError = error !== undefined;
  useEffect(() => {
    if (isConnected.value && hasError) void sync.fetchSession(id);
  }, [isConnected.value]);
  const content = useRef<HTMLDivElement>(null);
  useKeptInView(content, session !== undefined && !hasLeft);
  if (error) return <ErrorNotice text={error.text} onRetry={() => void sync.fetchSession(id)} />;
  if (!session) return <Skeleton label="Loading the request" />;
  const [, current] = validRequests(session.agentState?.requests ?? {}).find(([pendingId]) => pendingId === requestId) ?? [];
  const request = hasLeft ? lastRequest : current;
  return (
    <div class="inbox-content" ref={content}>
      {request && (
        <RequestCard
          session={session}
          requestId={requestId}
          request={request}
          isActive={!hasLeft && openSessionId.value === null}
          isGuarded={false}
        />
      )}
      <Link href={`/sessions/${id}`} class="button quiet">
        Open the session
      </Link>
    </div>
  );
}

/** How long an opened item is kept in view while its content is rendered. */
const KEEP_IN_VIEW_MS = 1000;

/** Scrolls an item so that the buttons of its card are in view: they may be below the end of a phone's screen. */
function useKeptInView(content: RefObject<HTMLElement>, isLoaded: boolean): void {
  useEffect(() => {
    const { current } = content;
    if (!current || !isLoaded) return undefined;
    const observer = new ResizeObserver(() => {
      // In landscape, the list may be lower than the item.
      for (const element of [current.closest('li'), current.querySelector('.request-choices > :last-child')])
        element?.scrollIntoView({ block: 'nearest' });
    });
    observer.observe(current);
    const timer = setTimeout(() => observer.disconnect(), KEEP_IN_VIEW_MS);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [content, isLoaded]);
}
