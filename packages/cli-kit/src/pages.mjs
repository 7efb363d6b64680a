/** Pages of long lists in answers to the hub. */

/**
 * Returns a page of a list. `moreField` is `{more}`, the number of entries after the page, or `{}` for the last page.
 * @template T
 * @param {T[]} all
 * @param {unknown} offset
 * @param {number} max
 * @returns {{entries: T[], moreField: {more?: number}}}
 */
export function pageOf(all, offset, max) {
  const start = typeof offset === 'number' && Number.isInteger(offset) && offset > 0 ? offset : 0;
  const more = all.length - start - max;
  return { entries: all.slice(start, start + max), moreField: more > 0 ? { more } : {} };
}
