/** One row of a conversation: an item, the separators above it, and the line of a turn that can be folded. */

import { ChevronDown, ChevronRight } from 'lucide-preact';
import { memo } from 'preact/compat';
import type { Session } from '../api/types.ts';
import { isTime, type Row } from '../content/rows.ts';
import { pluralize } from '../content/tool-summary.ts';
import { describeDuration, withFolded } from '../content/turns.ts';
import { getFolds, updateReading } from '../state/reading.ts';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { formatDay } from '../ui/format.ts';
import { ListItem } from '../ui/list-item.ts';
import { TimelineItemView } from './timeline-item.tsx';

interface Props {
  row: Row;
  sessionId: string;
  metadata: Session['metadata'];
  isActive: boolean;
  /** Whether the row contains the current hit of a search. */
  isHit: boolean;
}

function isSameRow(a: Props, b: Props): boolean {
  const [before, after] = [a.row, b.row];
  return (
    before.item === after.item &&
    before.day === after.day &&
    before.newCount === after.newCount &&
    before.showsTime === after.showsTime &&
    before.turn?.stepCount === after.turn?.stepCount &&
    before.turn?.duration === after.turn?.duration &&
    before.turn?.isFolded === after.turn?.isFolded &&
    a.metadata === b.metadata &&
    a.isActive === b.isActive &&
    a.isHit === b.isHit
  );
}

/** Rendered again only if its content has changed: an event changes few rows. */
export const MessageRow = memo(({ row, sessionId, metadata, isActive, isHit }: Props) => {
  const { item, day, newCount, turn, showsTime } = row;
  const time = showsTime && 'createdAt' in item && isTime(item.createdAt) ? item.createdAt : null;
  return (
    <div class={isHit ? 'message hit' : 'message'} data-key={item.key}>
      {day !== undefined && <DaySeparator time={day} />}
      {newCount !== undefined && <p class="new-messages">{newCount} new</p>}
      <ErrorBoundary>
        <ListItem.Provider value={{ key: `${sessionId} ${item.key}`, time }}>
          <TimelineItemView
            item={item}
            sessionId={sessionId}
            metadata={metadata}
            isActive={isActive}
            turnLine={turn && <TurnLine turn={turn} sessionId={sessionId} />}
          />
        </ListItem.Provider>
      </ErrorBoundary>
    </div>
  );
}, isSameRow);

function DaySeparator({ time }: { time: number }) {
  const label = formatDay(time);
  return (
    <p class="day" role="separator" aria-label={label}>
      <span>{label}</span>
    </p>
  );
}

/** Folds or opens the turn of the agent below a message of the user. */
function TurnLine({ turn: { key, stepCount, duration, isFolded }, sessionId }: { turn: NonNullable<Row['turn']>; sessionId: string }) {
  const Icon = isFolded ? ChevronRight : ChevronDown;
  return (
    <button
      type="button"
      class="turn-line"
      aria-expanded={!isFolded}
      onClick={() => updateReading(sessionId, { folds: withFolded(getFolds(sessionId), key, !isFolded) })}
    >
      <Icon size={14} /> {pluralize(stepCount, 'step')} · {describeDuration(duration)}
    </button>
  );
}
