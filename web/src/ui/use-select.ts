/** Parts of the state for a view. */

import { useComputed } from '@preact/signals';
import { state } from '../state/store.ts';
import type { State } from '../state/types.ts';

/**
 * A part of the state. The view is made anew when this part changes, and not with every event.
 * @param select must not depend on anything that changes but the state
 */
export function useSelect<T>(select: (state: State) => T): T {
  return useComputed(() => select(state.value)).value;
}
