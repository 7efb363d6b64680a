/** The items of the inbox as a list shows them: nothing moves while the user is about to press it. */

import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { LEAVE_MS, type ShownItem, updateShown } from '../state/inbox.ts';
import { inboxItems, state } from '../state/store.ts';
import { isDialogOpen } from '../ui/dialog.tsx';

/**
 * `isInUse`: whether the user is pointing at, touching or scrolling the list. `holdsNew`: whether new items are left out while the list is
 * in use.
 */
export function useShownItems(isInUse: boolean, holdsNew: boolean): ShownItem[] {
  const previous = useRef<ShownItem[]>([]);
  const isStored = state.value.inbox.isStored === true;
  const wasStored = useRef(isStored);
  // An item of the stored inbox that no longer waits is removed at once: it may have stopped waiting long ago.
  if (wasStored.current && !isStored) previous.current = [];
  wasStored.current = isStored;
  const [, render] = useReducer((count: number) => count + 1, 0);
  const shown = updateShown(previous.current, inboxItems.value, Date.now(), { isInUse, holdsNew: isInUse && holdsNew });
  previous.current = shown;
  const firstLeftAt = Math.min(...shown.map(({ leftAt }) => leftAt ?? Infinity));
  useEffect(() => {
    if (firstLeftAt === Infinity) return undefined;
    const timer = setTimeout(() => render(null), Math.max(0, firstLeftAt + LEAVE_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [firstLeftAt, isInUse]);
  return shown;
}

/**
 * Moves the focus to the next item when the focused item stops waiting, or to the previous item, or to the heading.
 * @param list contains the items, and an element with the class `inbox-link` as the last resort
 * @returns a handler of `focusin` events
 */
export function useFocusOfNextItem(list: RefObject<HTMLElement>, shown: readonly ShownItem[]): (event: FocusEvent) => void {
  const focusedKey = useRef<string | null>(null);
  // The item may stop waiting while a dialog has the focus. When the dialog is closed, the list is rendered again.
  const hasDialog = isDialogOpen.value;
  useLayoutEffect(() => {
    const index = shown.findIndex(({ item }) => item.key === focusedKey.current);
    if (
      hasDialog ||
      document.activeElement !== document.body ||
      focusedKey.current === null ||
      (index >= 0 && shown[index]?.leftAt === null)
    )
      return;
    focusedKey.current = null;
    const waiting = (items: readonly ShownItem[]) => items.find(({ leftAt }) => leftAt === null)?.item.key;
    const key = waiting(shown.slice(index + 1)) ?? waiting(shown.slice(0, Math.max(0, index)).toReversed());
    const rows = [...(list.current?.querySelectorAll<HTMLElement>('.inbox-item') ?? [])];
    const next = rows.find(({ dataset }) => dataset.key === key)?.querySelector<HTMLElement>('.inbox-row');
    (next ?? list.current?.querySelector<HTMLElement>('.inbox-link') ?? document.getElementById('main'))?.focus({ preventScroll: true });
  });
  return ({ target }) => {
    focusedKey.current = (target as HTMLElement).closest<HTMLElement>('.inbox-item')?.dataset.key ?? null;
  };
}
