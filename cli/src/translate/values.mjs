/** Checks and limits values that an agent sent. */

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
  return (line.length > max ? `${line.slice(0, max - 1).trimEnd()}…` : line).toWellFormed();
}

/** Limit on the JSON of the input of a call and of the arguments of a request, in bytes. */
export const MAX_INPUT_BYTES = 600_000;

const sizeOf = (value) => Buffer.byteLength(JSON.stringify(value) ?? '');

/** Levels of nested values. The hub accepts 500. */
const MAX_DEPTH = 100;

/**
 * Makes a value valid for the hub:
 * - Shortens the longest texts until the JSON fits. Each shortened text says how many characters are missing.
 * - Replaces a value with too many parts by `{json}`, the beginning of its JSON.
 * - Replaces halves of surrogate pairs, and levels below {@link MAX_DEPTH}.
 * @param {object} value
 * @param {number} maxBytes
 * @returns {any}
 */
export function limitSize(value, maxBytes) {
  for (let max = maxBytes; max > 64; max = Math.floor(max / 2)) {
    const limited = limitTexts(value, max, 0);
    if (sizeOf(limited) <= maxBytes) return limited;
  }
  // Inside the text `json`, each character of the JSON takes at most three bytes.
  return { json: cutText(JSON.stringify(limitTexts(value, 64, 0)), Math.floor(maxBytes / 4)) };
}

function limitTexts(value, max, depth) {
  if (typeof value === 'string') return cutText(value.toWellFormed(), max);
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) return '[nested too deep to show]';
  if (Array.isArray(value)) return value.map((item) => limitTexts(item, max, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name.toWellFormed(), limitTexts(item, max, depth + 1)]));
}

/** Shortens a text to its first `max` characters and a note. */
export function cutText(value, max) {
  if (value.length <= max) return value;
  // Half of a surrogate pair is not valid JSON for the hub.
  const end = /[\uD800-\uDBFF]/.test(value[max - 1]) ? max - 1 : max;
  return `${value.slice(0, end)}\n[${value.length - end} more characters]`;
}
