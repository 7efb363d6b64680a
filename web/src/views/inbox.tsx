/** The inbox: everything that waits for the user, oldest first, by session. */

import { useRef, useState } from 'preact/hooks';
import { groupShown, type ShownItem } from '../state/inbox.ts';
import { sync } from '../state/hub-client.ts';
import { sessionTitle } from '../state/sessions.ts';
import { inboxItems, isPushLost, loadStates, state } from '../state/store.ts';
import { isWide } from '../ui/device.ts';
import { ErrorNotice, LoadGate } from '../ui/loading.tsx';
import { ShowMore } from '../ui/show-more.tsx';
import { usePointerActivity } from '../ui/use-pointer-activity.ts';
import { useInboxKeys } from './inbox-keys.ts';
import { InboxAnnouncement } from './inbox-announcement.tsx';
import { InboxRow } from './inbox-row.tsx';
import { PushNotice } from './list-notices.tsx';
import { useFocusOfNextItem, useShownItems } from './use-shown-items.ts';

/** The number of sessions that are rendered at first, and that are added whenever the end comes into view. */
const GROUPS_PER_STEP = 20;
/** A session with more items shows only the first of them, until the user expands the session. */
const MAX_ROWS_PER_SESSION = 3;

export function Inbox() {
  const page = useRef<HTMLDivElement>(null);
  const shown = useShownItems(usePointerActivity(page), false);
  const onFocusIn = useFocusOfNextItem(page, shown);
  useInboxKeys(page);
  const [groupLimit, setGroupLimit] = useState(GROUPS_PER_STEP);
  const groups = groupShown(shown);
  const { nextCursor, load } = state.value.inbox;
  const count = inboxItems.value.length;
  return (
    <div class="page" ref={page} tabIndex={0} role="region" aria-label="Waiting for you" onFocusIn={onFocusIn}>
      <div class="page-head">
        <h1>Waiting for you</h1>
        {count > 0 && <span class="muted">{count}</span>}
      </div>
      {isPushLost.value && !isWide.value && <PushNotice />}
      <LoadGate loadState={loadStates.listAndInbox.value} label="Loading what waits" onRetry={() => void sync.refetchShown()}>
        {load.status === 'failed' && <ErrorNotice text={load.error} onRetry={() => void sync.fetchInbox()} />}
        {shown.length === 0 && load.status === 'ready' && (
          <div class="empty">
            <h2>Nothing waits for you</h2>
            <p>Requests and questions of your agents appear here, and sessions that became ready or failed.</p>
          </div>
        )}
        <ul role="list" class="inbox">
          {groups.slice(0, groupLimit).map(({ id, items }) => (
            <SessionItems key={id} items={items} />
          ))}
        </ul>
        {groups.length > groupLimit && (
          <ShowMore label="Show more" rowLimit={groupLimit} onShow={() => setGroupLimit(groupLimit + GROUPS_PER_STEP)} />
        )}
        {groups.length <= groupLimit && nextCursor !== undefined && (
          <button type="button" class="button" onClick={() => void sync.fetchMoreInbox()}>
            Load more
          </button>
        )}
      </LoadGate>
      <InboxAnnouncement shown={shown} />
    </div>
  );
}

/** The items of one session. */
function SessionItems({ items }: { items: ShownItem[] }) {
  const [isExpanded, setExpanded] = useState(false);
  // A button for one item would need as much space as the item.
  const isCollapsed = !isExpanded && items.length > MAX_ROWS_PER_SESSION + 1;
  const visible = isCollapsed ? items.slice(0, MAX_ROWS_PER_SESSION) : items;
  const [first] = items;
  return (
    <>
      {visible.map((shownItem) => (
        <InboxRow key={shownItem.item.key} shown={shownItem} />
      ))}
      {isCollapsed && first && (
        <li>
          <button type="button" class="button quiet inbox-more" onClick={() => setExpanded(true)}>
            {items.length - visible.length} more in {sessionTitle(first.item.session)}
          </button>
        </li>
      )}
    </>
  );
}
