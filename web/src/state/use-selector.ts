/** Subscribes a view to a part of the state. */

import { useComputed } from '@preact/signals';
import { state } from './store.ts';
import type { State } from './types.ts';

/**
 * Returns a part of the state. The view renders again only when this part changes.
 * @param select must depend only on the state and on constants
 */
export function useSelector<T>(select: (state: State) => T): T {
  return useComputed(() => select(state.value)).value;
}
