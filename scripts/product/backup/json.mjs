// Repairs JSON that `d1 export` has changed.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ESCAPES = new Map([
  [0x0a, Buffer.from('\\n')],
  [0x0d, Buffer.from('\\r')],
]);

/** Matches a line in a row of the event log: the number, the audience and the JSON of an event. */
const EVENT_LOG_LINE = /^\d+\t[a-z]"[^\t]*"\t(.*)$/s;

/**
 * Reverts an error of D1: in an exported text with line breaks, D1 also writes the two characters `\n` as a line break, and the two
 * characters `\r` as a carriage return (https://github.com/cloudflare/workers-sdk/issues/9042). In valid JSON, strings contain no line
 * breaks, and `\n` is only in strings. So a line break in a string was `\n`, and any other line break was a line break.
 * @param {Buffer} bytes a text
 * @returns {Buffer} the repaired text. The same object if the text needs no repair, or if the result is neither JSON nor a row of the
 *   event log: a part of a large value may begin inside a string
 */
export function repairJson(bytes) {
  if (![...ESCAPES.keys()].some((byte) => bytes.includes(byte))) return bytes;
  const parts = [];
  let start = 0;
  let isInString = false;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString && byte === BACKSLASH && !ESCAPES.has(bytes[i + 1])) i += 1;
    else if (isInString && ESCAPES.has(byte)) {
      parts.push(bytes.subarray(start, i), ESCAPES.get(byte));
      start = i + 1;
    }
  }
  if (parts.length === 0) return bytes;
  const repaired = Buffer.concat([...parts, bytes.subarray(start)]);
  const text = repaired.toString();
  return isJson(text) ||
    text
      .trimEnd()
      .split('\n')
      .every((line) => isJson(EVENT_LOG_LINE.exec(line)?.[1]))
    ? repaired
    : bytes;
}

/** @param {string | undefined} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
