/** Keeps a row at its place after a jump, while the rows around it are measured, until the user scrolls. */

import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { VirtualizerHandle } from 'virtua';

/** Where a row is shown. `offset`: the distance of the row's start to the top of the visible area, negative if it is above. */
export type RowPlace = { key: string; align: 'start'; offset: number } | { key: string; align: 'center' };

/** Rows are measured within this time. Without a limit, the list would work against a screen reader that scrolls without an input event. */
const MAX_HOLD_MS = 2000;

const INPUT_EVENTS = ['wheel', 'touchstart', 'pointerdown', 'keydown'] as const;

export interface HeldRow {
  /** Scrolls to a row, and holds the row. */
  hold: (place: RowPlace) => void;
  /** Scrolls to the held row again. Returns false if no row is held. */
  update: () => boolean;
  release: () => void;
}

/**
 * Replaces `scrollToIndex` of the list, which cannot be interrupted: while rows are measured, it would scroll back against the user.
 * @param startMargin the height above the first row, in pixels
 * @param indexOf returns -1 if a row is not in the list
 */
export function useHeldRow(
  scroller: RefObject<HTMLElement>,
  list: RefObject<VirtualizerHandle>,
  startMargin: number,
  indexOf: (key: string) => number,
): HeldRow {
  const held = useRef<{ place: RowPlace; until: number } | null>(null);
  const release = () => {
    held.current = null;
  };
  useEffect(() => {
    const element = scroller.current;
    for (const name of INPUT_EVENTS) element?.addEventListener(name, release, { passive: true });
    return () => {
      for (const name of INPUT_EVENTS) element?.removeEventListener(name, release);
    };
  }, []);
  const update = () => {
    const [{ current: element }, { current: handle }] = [scroller, list];
    if (held.current === null || !element || !handle) return false;
    const { place, until } = held.current;
    const index = indexOf(place.key);
    if (index === -1 || performance.now() > until) {
      release();
      return false;
    }
    const distance = place.align === 'start' ? place.offset : Math.max(0, (element.clientHeight - handle.getItemSize(index)) / 2);
    element.scrollTop = startMargin + handle.getItemOffset(index) - distance;
    return true;
  };
  return {
    hold: (place) => {
      held.current = { place, until: performance.now() + MAX_HOLD_MS };
      update();
    },
    update,
    release,
  };
}
