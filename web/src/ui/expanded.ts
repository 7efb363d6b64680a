/** Remembers which items of the conversation, and which long texts in them, the user has expanded. */

import { computed, signal } from '@preact/signals';
import { useContext, useMemo, useState } from 'preact/hooks';
import { ListItem } from './list-item.ts';

/** The name of the whole item. The texts in the item have other names. */
export const WHOLE_ITEM = '';

/**
 * The names of the expanded parts, by the key of the list item. A signal instead of component state, because a virtualized list
 * unmounts items that scroll out of view.
 */
const expandedNames = signal<ReadonlyMap<string, ReadonlySet<string>>>(new Map());

/** Expands or collapses a part of a list item. */
export function setExpandedInItem(item: string, name: string, isExpanded: boolean) {
  const names = new Set(expandedNames.peek().get(item));
  if (isExpanded) names.add(name);
  // An item that is expanded again starts with short texts.
  else if (name === WHOLE_ITEM) names.clear();
  else names.delete(name);
  expandedNames.value = new Map(expandedNames.peek()).set(item, names);
}

/**
 * Returns whether a part is expanded, and a function that expands or collapses the part. `name` must be unique in the list item.
 * Outside of a list, the component stores the state.
 */
export function useExpanded(name: string): [boolean, (isExpanded: boolean) => void] {
  const item = useContext(ListItem).key;
  const [isExpanded, setExpanded] = useState(false);
  // The component renders again only when the state of this name changes.
  const isExpandedInItem = useMemo(() => computed(() => item !== null && !!expandedNames.value.get(item)?.has(name)), [item, name]).value;
  return item === null ? [isExpanded, setExpanded] : [isExpandedInItem, (shouldExpand) => setExpandedInItem(item, name, shouldExpand)];
}
