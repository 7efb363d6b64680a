/** The keys of the inbox: `j` and `k` move the focus between the items, and the keys that answer a request are for the focused item. */

import type { RefObject } from 'preact';
import { useRequestKeys } from './request-keys.ts';

/** Matches the buttons and links that open an item, and the buttons that show more items of a session. An item that no longer waits cannot be opened. */
const TARGETS = '.inbox-item:not(.left) .inbox-row, .inbox-more';

const isOpen = (target: HTMLElement | undefined) => target?.getAttribute('aria-expanded') === 'true';

const findTargets = (container: HTMLElement | null) => [...(container?.querySelectorAll<HTMLElement>(TARGETS) ?? [])];

const findFocused = (targets: HTMLElement[]) => targets.findIndex((target) => target.closest('li')?.contains(document.activeElement));

/** The keys of the page of the inbox. */
export function useInboxKeys(page: RefObject<HTMLElement>): void {
  useRequestKeys((key) => (key === 'j' || key === 'k' ? moveFocus(page.current, key) : openFocusedItem(page.current, key)));
}

/** The keys of the section above the list of sessions, where `j` and `k` open sessions. */
export function useInboxSectionKeys(section: RefObject<HTMLElement>): void {
  useRequestKeys((key) => openFocusedItem(section.current, key));
}

function moveFocus(page: HTMLElement | null, key: 'j' | 'k'): boolean {
  const targets = findTargets(page);
  const focused = findFocused(targets);
  const from = focused < 0 ? targets.findIndex(isOpen) : focused;
  targets[key === 'j' ? from + 1 : Math.max(from - 1, 0)]?.focus();
  // At the ends of the inbox, the keys do not continue with the sessions.
  return true;
}

/** Opens the focused item for a key that answers requests: only an open request can be answered, because it shows what would run. */
function openFocusedItem(container: HTMLElement | null, key: string): boolean {
  const targets = findTargets(container);
  const target = targets[findFocused(targets)];
  if (!target || isOpen(target) || (key !== 'a' && key !== 'd' && key !== '.')) return false;
  if (target.ariaExpanded === 'false') target.click();
  // Otherwise, the key would answer the open request, although another item has the focus.
  return true;
}
