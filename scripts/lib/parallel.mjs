// Parallel work with a limit.

/** Runs `work(item, lane)` for each item, in `width` parallel lanes with the numbers 0 to `width` - 1. */
export async function inLanes(items, width, work) {
  let nextIndex = 0;
  await Promise.all(
    Array.from({ length: Math.min(width, items.length) }, async (_, lane) => {
      while (nextIndex < items.length) await work(items[nextIndex++], lane);
    }),
  );
}
