import { mock } from 'node:test';

/** Runs the callbacks of settled promises. */
export const flushPromises = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Advances the mocked timers, and runs what they start. */
export async function advance(ms: number) {
  mock.timers.tick(ms);
  await flushPromises();
}
