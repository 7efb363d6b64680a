/** Asynchronous work on many items, a few at a time. */

/**
 * Maps items in order, `size` at a time.
 * @template Item, Result
 * @param {Item[]} items
 * @param {(item: Item) => Result | Promise<Result>} map
 * @param {number} [size]
 * @returns {Promise<Result[]>}
 */
export async function mapInBatches(items, map, size = 64) {
  const results = [];
  for (let at = 0; at < items.length; at += size) results.push(...(await Promise.all(items.slice(at, at + size).map(map))));
  return results;
}
