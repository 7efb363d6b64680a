/** The current time as a signal, for relative times such as "3 min ago". */

import { signal } from '@preact/signals';

const TICK_MS = 30_000;

/** Unix milliseconds, updated every {@link TICK_MS}. */
export const now = signal(Date.now());

setInterval(() => {
  now.value = Date.now();
}, TICK_MS);
