/** The section "Waiting for you" above the list of sessions: the oldest items of the inbox, at most one of each session. */

import './inbox.css';
import { ChevronRight } from 'lucide-preact';
import { useRef } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { groupShown } from '../state/inbox.ts';
import { useInboxSectionKeys } from './inbox-keys.ts';
import { InboxAnnouncement } from './inbox-announcement.tsx';
import { InboxRow } from './inbox-row.tsx';
import { useFocusOfNextItem, useShownItems } from './use-shown-items.ts';

/** With more items than this, the section shows one item of each session. */
const MAX_ROWS = 4;

/** `isInUse`: whether the user is pointing at, touching or scrolling the list, so that its content must not move. */
export function InboxSection({ isInUse }: { isInUse: boolean }) {
  const section = useRef<HTMLElement>(null);
  const shown = useShownItems(isInUse, true);
  const onFocusIn = useFocusOfNextItem(section, shown);
  useInboxSectionKeys(section);
  if (shown.length === 0) return <InboxAnnouncement shown={shown} />;
  const waiting = shown.filter(({ leftAt }) => leftAt === null).length;
  const rows =
    shown.length <= MAX_ROWS
      ? shown.map((shownItem) => ({ shown: shownItem, others: 0 }))
      : groupShown(shown)
          .slice(0, MAX_ROWS)
          .map(({ items: [first, ...others] }) => ({ shown: first, others: others.length }));
  return (
    <section class="inbox" aria-labelledby="inbox-heading" ref={section} onFocusIn={onFocusIn}>
      <h2 id="inbox-heading" class="inbox-head">
        <Link href="/inbox" class="inbox-link">
          Waiting for you <span class="inbox-count">{waiting}</span>
          <ChevronRight size={16} />
        </Link>
      </h2>
      <ul role="list">
        {rows.map(({ shown: shownItem, others }) => shownItem && <InboxRow key={shownItem.item.key} shown={shownItem} others={others} />)}
      </ul>
      <InboxAnnouncement shown={shown} />
    </section>
  );
}
