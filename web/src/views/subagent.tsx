/** What a sub-agent did: the texts and calls below the call that started it. */

import './subagent.css';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { isTime } from '../content/rows.ts';
import type { TimelineItem } from '../content/timeline-item.ts';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { formatCount } from '../ui/format.ts';
import { ListItem } from '../ui/list-item.ts';

/** The number of items that are added at a time. Unlike the conversation, the list is not virtualized. */
const ITEMS_PER_STEP = 40;

const timeOf = (item: TimelineItem) => ('createdAt' in item && isTime(item.createdAt) ? item.createdAt : null);

interface Props {
  items: TimelineItem[];
  sessionId: string;
  renderItem: (item: TimelineItem) => ComponentChildren;
}

export function Subagent({ items, sessionId, renderItem }: Props) {
  const [shownCount, setShownCount] = useState(ITEMS_PER_STEP);
  const earlier = Math.max(0, items.length - shownCount);
  return (
    <section class="subagent" aria-label="Sub-agent">
      {earlier > 0 && (
        <button type="button" class="button quiet" onClick={() => setShownCount(shownCount + ITEMS_PER_STEP)}>
          {formatCount(earlier)} earlier …
        </button>
      )}
      {items.slice(earlier).map((item) => (
        <div key={item.key} class="subagent-item">
          <ErrorBoundary>
            <ListItem.Provider value={{ key: `${sessionId} ${item.key}`, time: timeOf(item) }}>{renderItem(item)}</ListItem.Provider>
          </ErrorBoundary>
        </div>
      ))}
    </section>
  );
}
