// Measures how slow this computer is, for the time limits of tests.

import { createHash } from 'node:crypto';

/** How long {@link work} takes on the computer for which the limits were chosen, in milliseconds. */
const REFERENCE_MS = 100;

const MAX_SLOWNESS = 6;

/** Hashes 48 MB. */
function work() {
  const hash = createHash('sha256');
  const block = Buffer.alloc(1 << 20);
  for (let i = 0; i < 48; i += 1) hash.update(block);
  hash.digest();
}

/** Returns by which factor time limits are longer on this computer: 1 to 6. Takes the slowest of five measurements. */
export function measureSlowness() {
  const times = Array.from({ length: 5 }, () => {
    const started = performance.now();
    work();
    return performance.now() - started;
  });
  return Math.min(MAX_SLOWNESS, Math.max(1, Math.max(...times) / REFERENCE_MS));
}
