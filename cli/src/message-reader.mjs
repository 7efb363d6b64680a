/** Reads the messages in the output of an agent: JSON objects, one a line. */

const NEWLINE = 0x0a;

/** Limit on a message. Longer messages are skipped, because they would fill the memory. */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** The first characters of a skipped message are searched for its id. */
const HEAD_BYTES = 300;

const HEAD = /^\s*\{"jsonrpc":"2\.0",(?:"id":(?<id>\d+|"[^"\\]*"),)?"(?<kind>method|result|error)"/;

/**
 * Returns a stream that reads messages. The SDK's own stream answers each line that is no message, and an agent that logs what it reads
 * would then never stop; a message above the SDK's limit ends its connection.
 * @param {{onOtherLine: (line: string) => void, replaceSkipped: (head: {bytes: number, id?: string | number, kind?: string}) => object | null,
 *   maxBytes?: number}} options `onOtherLine`: called with each line that is not empty and no message; `replaceSkipped`:
 *   returns the message to read instead of a message that is too long. It gets the id of a request or an answer, and the kind of the message
 *   (`method`, `result` or `error`), if they are found
 * @returns {TransformStream<Uint8Array, any>}
 */
export function createMessageReader({ onOtherLine, replaceSkipped, maxBytes = MAX_MESSAGE_BYTES }) {
  /** The beginning of the current line; only its head if the line is too long. @type {Buffer[]} */
  let parts = [];
  let bytes = 0;

  const append = (/** @type {Buffer} */ part) => {
    if (bytes <= maxBytes && bytes + part.length > maxBytes) parts = [Buffer.concat([...parts, part]).subarray(0, HEAD_BYTES)];
    else if (bytes <= maxBytes) parts.push(part);
    bytes += part.length;
  };

  const endLine = (controller) => {
    const text = Buffer.concat(parts).toString().trim();
    const length = bytes;
    parts = [];
    bytes = 0;
    const message = length > maxBytes ? replaceSkipped(readHead(text, length)) : parseObject(text);
    if (message !== null) controller.enqueue(message);
    else if (text !== '' && length <= maxBytes) onOtherLine(text);
  };

  return new TransformStream({
    transform(chunk, controller) {
      const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      let start = 0;
      for (let end = buffer.indexOf(NEWLINE); end >= 0; end = buffer.indexOf(NEWLINE, start)) {
        append(buffer.subarray(start, end));
        endLine(controller);
        start = end + 1;
      }
      if (start < buffer.length) append(buffer.subarray(start));
    },
    flush: endLine,
  });
}

/** @returns {object | null} null if the text is no JSON object */
function parseObject(text) {
  if (!text.startsWith('{')) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function readHead(text, bytes) {
  const { id, kind } = HEAD.exec(text)?.groups ?? {};
  return { bytes, ...(id === undefined ? {} : { id: JSON.parse(id) }), kind };
}
