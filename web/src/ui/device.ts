/** What the device has room and keys for. */

import { signal } from '@preact/signals';

const wide = matchMedia('(min-width: 900px)');

/** Whether there is room for the list beside a session, as it is now. */
export const isWide = signal(wide.matches);

wide.addEventListener('change', ({ matches }) => {
  isWide.value = matches;
});

/** Whether there are keys without a keyboard on the screen, which takes half of a phone's. */
export const hasKeyboard = matchMedia('(hover: hover) and (pointer: fine)').matches;
