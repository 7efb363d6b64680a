/** Whether there is room for the list beside a session. */

import { signal } from '@preact/signals';

const wide = matchMedia('(min-width: 900px)');

/** As it is now. */
export const isWide = signal(wide.matches);

wide.addEventListener('change', ({ matches }) => {
  isWide.value = matches;
});
