/** The list item around a component. */

import { createContext } from 'preact';

interface ListItem {
  /** Null outside of virtualized lists. */
  key: string | null;
  /** Unix milliseconds; null if the item shows no time. */
  time: number | null;
}

export const ListItem = createContext<ListItem>({ key: null, time: null });
