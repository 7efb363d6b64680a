/** Pages of long lists in answers to the hub. */

/**
 * Returns a part of a list, and the number of entries after it, if there are some.
 * @template T
 * @param {T[]} all
 * @param {unknown} offset
 * @param {number} max
 * @returns {{entries: T[], more: {more?: number}}}
 */
export function pageOf(all, offset, max) {
  const start = typeof offset === 'number' && Number.isInteger(offset) && offset > 0 ? offset : 0;
  const rest = all.length - start - max;
  return { entries: all.slice(start, start + max), more: rest > 0 ? { more: rest } : {} };
}
