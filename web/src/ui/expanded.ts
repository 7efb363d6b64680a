/** Which items, and which long texts in them, the user has expanded. */

import { signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext, useState } from 'preact/hooks';

/** Components cannot hold this state: a virtualized list unmounts them when they scroll out of view. */
const expandedIds = signal<ReadonlySet<string>>(new Set());

/** Returns whether something is expanded, and a function that toggles it. */
export function useExpanded(id: string): [boolean, () => void] {
  const toggle = () => {
    const next = new Set(expandedIds.value);
    if (!next.delete(id)) next.add(id);
    expandedIds.value = next;
  };
  return [expandedIds.value.has(id), toggle];
}

/** The key of the list item that contains a component. `null` outside of virtualized lists. */
export const ListItem = createContext<string | null>(null);

/** Like `useExpanded`, for a text in a list item. `name` differs from those of the other texts in the item. */
export function useExpandedText(name: string): [boolean, () => void] {
  const item = useContext(ListItem);
  const inItem = useExpanded(JSON.stringify([item, name]));
  const [isExpanded, setExpanded] = useState(false);
  return item === null ? [isExpanded, () => setExpanded(!isExpanded)] : inItem;
}
