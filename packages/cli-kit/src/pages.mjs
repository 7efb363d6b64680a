/** Pages of long lists in answers to the hub. */

/**
 * Returns a page of a list, and the field `more`: the number of entries after the page. On the last page, the field is missing.
 * @template T
 * @param {T[]} all
 * @param {unknown} offset
 * @param {number} max
 * @returns {{entries: T[], moreField: {more?: number}}}
 */
export function pageOf(all, offset, max) {
  const start = typeof offset === 'number' && Number.isInteger(offset) && offset > 0 ? offset : 0;
  const rest = all.length - start - max;
  return { entries: all.slice(start, start + max), moreField: rest > 0 ? { more: rest } : {} };
}
