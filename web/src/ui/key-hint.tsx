/** The key of a button, shown beside its label. */

import { hasKeyboard } from './device.ts';

/** Renders nothing without a keyboard. The button has `aria-keyshortcuts` for screen readers. */
export function KeyHint({ keys }: { keys: string }) {
  return hasKeyboard.value ? (
    <kbd class="key-hint" aria-hidden>
      {keys}
    </kbd>
  ) : null;
}
