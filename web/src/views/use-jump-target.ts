/** Shows the message that a search or a date has selected. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Row } from '../content/rows.ts';
import type { TimelineItem } from '../content/timeline-item.ts';
import { findTurns, isFolded, withFolded } from '../content/turns.ts';
import { jumpTarget } from '../state/jump.ts';
import { getFolds, updateReading } from '../state/reading.ts';
import { setExpandedInItem, WHOLE_ITEM } from '../ui/expanded.ts';
import { OUTPUT_NAME } from './tool-content.tsx';

/** Finds the item with a message. One message may have several items, so the item with the searched text is preferred. */
function findItem(items: readonly TimelineItem[], seq: number, query: string | null): TimelineItem | undefined {
  const ofMessage = items.filter((item) => item.seq === seq || item.moreSeqs?.includes(seq));
  const text = query?.toLowerCase();
  // Some messages have no item.
  if (text === undefined) return ofMessage[0] ?? items.find((item) => (item.seq ?? 0) >= seq);
  return ofMessage.find((item) => JSON.stringify(item).toLowerCase().includes(text)) ?? ofMessage[0];
}

/**
 * Scrolls to the message of `jumpTarget`, once the message is loaded. Opens its turn, and expands its item if the item contains a
 * searched text.
 * @returns the key of the item with the searched text; undefined without a search
 */
export function useJumpTarget(
  sessionId: string,
  items: readonly TimelineItem[],
  rows: readonly Row[],
  showRow: (index: number, align: 'start' | 'center') => void,
): string | undefined {
  const target = jumpTarget.value?.sessionId === sessionId ? jumpTarget.value : null;
  const shown = useRef<typeof target>(null);
  const item = target ? findItem(items, target.seq, target.query) : undefined;
  // Before the message is painted: a later jump would scroll back against the user.
  useLayoutEffect(() => {
    if (!target || !item || shown.current === target) return;
    const turn = findTurns(items)[items.indexOf(item)];
    const folds = getFolds(sessionId);
    const index = rows.findIndex((row) => row.item === item);
    if (index === -1 && turn && isFolded(turn, folds)) {
      // Without its user's message, a turn can be opened only with all others. The next rendering scrolls.
      updateReading(sessionId, { folds: turn.key === null ? { isFolded: false, exceptions: [] } : withFolded(folds, turn.key, false) });
      return;
    }
    shown.current = target;
    if (target.query !== null) for (const name of [WHOLE_ITEM, OUTPUT_NAME]) setExpandedInItem(`${sessionId} ${item.key}`, name, true);
    showRow(index, target.query === null ? 'start' : 'center');
  });
  return target?.query ? item?.key : undefined;
}
