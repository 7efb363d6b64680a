/** The time, as often as it matters to what is shown. */

import { signal } from '@preact/signals';

const TICK_MS = 30_000;

/** The present time in Unix milliseconds, anew every half minute. */
export const now = signal(Date.now());

setInterval(() => {
  now.value = Date.now();
}, TICK_MS);
