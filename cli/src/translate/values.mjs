/** Checks and limits of values that an agent sent. */

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @returns {value is string} */
export const isText = (value) => typeof value === 'string' && value !== '';

/** Whether a value is an object with at least one field. */
export const hasFields = (value) => isObject(value) && Object.keys(value).length > 0;

/** @returns {any[]} */
export const asList = (value) => (Array.isArray(value) ? value : []);

export const asObject = (value) => (isObject(value) ? value : {});

/** Returns the first line of a text with at most `max` characters. */
export function firstLine(value, max) {
  const line = value.trim().split('\n', 1)[0].trim();
  return line.length > max ? `${line.slice(0, max - 1).trimEnd()}…` : line;
}

const sizeOf = (value) => Buffer.byteLength(JSON.stringify(value) ?? '');

/**
 * Shortens the longest texts in a value until its JSON fits. Each says how much is left out.
 * @template T
 * @param {T} value
 * @param {number} maxBytes
 * @returns {T}
 */
export function limitSize(value, maxBytes) {
  let limited = value;
  for (let max = maxBytes; sizeOf(limited) > maxBytes && max > 64; max = Math.floor(max / 2)) limited = cutTexts(value, max);
  return limited;
}

function cutTexts(value, max) {
  if (typeof value === 'string') return cutText(value, max);
  if (Array.isArray(value)) return value.map((item) => cutTexts(item, max));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, cutTexts(item, max)]));
}

/** Shortens a text to its first `max` characters and a note. */
export function cutText(value, max) {
  if (value.length <= max) return value;
  // Half of a surrogate pair is not valid JSON for the hub.
  const end = /[\uD800-\uDBFF]/.test(value[max - 1]) ? max - 1 : max;
  return `${value.slice(0, end)}\n[${value.length - end} more characters]`;
}
