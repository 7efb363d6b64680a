/** The current time as a signal, for relative times such as "3 min ago". */

import { signal } from '@preact/signals';

const TICK_MS = 30_000;

/** Unix milliseconds, updated every {@link TICK_MS} and when the page is shown or hidden. */
export const now = signal(Date.now());

const update = () => {
  now.value = Date.now();
};

setInterval(update, TICK_MS);
// A page in the background has no regular timers.
if (typeof document !== 'undefined') document.addEventListener('visibilitychange', update);
