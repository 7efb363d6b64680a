// The body of an upload: {"filename", "content", "mimeType"}, where `content` is base64 of up to 50 MB. It is not copied into
// wasm memory. The body is read into one buffer with free space at both ends. The start and end of the frame for the CLI are
// written there, around the content. Decoding the frame to a string makes the only copy; then the buffer is released.

/**
 * The free space at the ends of the buffer. It is small, so that the frame and the buffer need equally many pages of memory:
 * otherwise memory becomes too fragmented for the next upload.
 */
const PREFIX_BYTES = 512;
const SUFFIX_BYTES = 512;
/** The largest read, and the initial buffer for a body of unknown length. */
const CHUNK_BYTES = 1024 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const EQUALS = 0x3d;
const [PLUS, SLASH, MINUS, UNDERSCORE] = new TextEncoder().encode('+/-_');
const [LETTER_N, LETTER_R] = new TextEncoder().encode('nr');

/** The message is an `UploadFault` (src/hub/ports.rs) in kebab-case. */
class Fault extends Error {}

const CONTENT = new TextEncoder().encode('"content"');

/** @param {Uint8Array} key with quotes and possibly escapes */
function isContent(key) {
  if (key.length === CONTENT.length) return CONTENT.every((byte, at) => key[at] === byte);
  // Each of the seven letters has at most six bytes.
  if (key.length > 44 || !key.includes(BACKSLASH)) return false;
  try {
    return JSON.parse(new TextDecoder().decode(key)) === 'content';
  } catch {
    return false;
  }
}

/**
 * Finds the string values of the top-level key `content`. Stops at the second one, which makes the body invalid, and when the
 * other fields have more than `maxFields` bytes.
 * @returns {[number, number][]} start and end of each value, without the quotes
 */
export function findContent(bytes, maxFields) {
  const found = [];
  let at = 0;
  let fields = 0;
  const skipBlanks = () => {
    while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  };
  /** Moves past the string that starts at `at`; returns false for an unterminated one. */
  const skipString = () => {
    const quote = bytes.indexOf(QUOTE, at + 1);
    if (quote === -1) return false;
    if (bytes[quote - 1] !== BACKSLASH) {
      at = quote + 1;
      return true;
    }
    // Not `indexOf` for each quote: a string may have millions of escaped ones, and a call for each is slower.
    while (++at < bytes.length) {
      if (bytes[at] === BACKSLASH) at++;
      else if (bytes[at] === QUOTE) {
        at++;
        return true;
      }
    }
    return false;
  };
  skipBlanks();
  if (bytes[at++] !== 0x7b) return found;
  for (;;) {
    skipBlanks();
    const key = at;
    if (bytes[at] !== QUOTE || !skipString()) return found;
    const isContentKey = isContent(bytes.subarray(key, at));
    skipBlanks();
    if (bytes[at++] !== 0x3a) return found;
    skipBlanks();
    const value = at;
    if (bytes[at] === QUOTE) {
      if (!skipString()) return found;
      if (isContentKey) {
        found.push([value + 1, at - 1]);
        if (found.length === 2) return found;
        fields -= at - value;
      }
    } else {
      for (let depth = 0; at < bytes.length; at++) {
        const byte = bytes[at];
        if (byte === QUOTE) {
          if (!skipString()) return found;
          at--;
        } else if (byte === 0x7b || byte === 0x5b) depth++;
        else if (depth === 0 && (byte === 0x2c || byte === 0x7d)) break;
        else if (byte === 0x7d || byte === 0x5d) depth--;
      }
    }
    if (fields + at > maxFields) return found;
    skipBlanks();
    if (bytes[at++] !== 0x2c) return found;
  }
}

/**
 * Converts a JSON string of base64 in place to the alphabet and padding of RFC 4648 section 4, without escapes and line breaks.
 * Needs two bytes after the end for padding. Leaves invalid base64 invalid.
 * @returns {number} the new end of the string
 */
export function normalizeBase64(bytes, start, end) {
  const unescaped = unescape(bytes, start, end);
  replaceAll(bytes, start, unescaped, MINUS, PLUS);
  replaceAll(bytes, start, unescaped, UNDERSCORE, SLASH);
  const surplus = (unescaped - start) % 4;
  if (surplus < 2 || bytes[unescaped - 1] === EQUALS) return unescaped;
  const padded = unescaped + 4 - surplus;
  bytes.fill(EQUALS, unescaped, padded);
  return padded;
}

function replaceAll(bytes, start, end, byte, replacement) {
  const first = bytes.indexOf(byte, start);
  if (first === -1) return;
  // Not `indexOf` for each occurrence: there may be millions, and a call for each is slower.
  for (let at = first; at < end; at++) {
    if (bytes[at] === byte) bytes[at] = replacement;
  }
}

/** The values of hexadecimal digits, -1 for other characters. */
const HEX_DIGITS = new Int8Array(256).fill(-1);
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  HEX_DIGITS[digit.charCodeAt(0)] = value;
  HEX_DIGITS[digit.toUpperCase().charCodeAt(0)] = value;
}

/** Returns the number that four hexadecimal digits represent, or 0. Allocates nothing: a body may have millions of escapes. */
function hexNumber(bytes, at) {
  const number =
    (HEX_DIGITS[bytes[at]] << 12) |
    (HEX_DIGITS[bytes[at + 1]] << 8) |
    (HEX_DIGITS[bytes[at + 2]] << 4) |
    HEX_DIGITS[bytes[at + 3]];
  return number < 0 ? 0 : number;
}

/** Decodes escapes in place: some clients write `\/` and `\u002B`. Removes escaped line breaks. */
function unescape(bytes, start, end) {
  let from = bytes.indexOf(BACKSLASH, start);
  if (from === -1 || from >= end) return end;
  let to = from;
  while (from < end) {
    let byte = bytes[from++];
    if (byte === BACKSLASH) {
      byte = bytes[from++];
      if (byte === 0x75) {
        byte = from + 4 <= end ? hexNumber(bytes, from) : 0;
        from += 4;
        if (byte === 0x0a || byte === 0x0d) continue;
      } else if (byte === LETTER_N || byte === LETTER_R) continue;
      else if (byte !== SLASH) byte = 0;
    }
    // Not ASCII, so not base64. 0 is not base64 either, so the content stays invalid.
    bytes[to++] = byte > 0x7f ? 0 : byte;
  }
  return to;
}

const ALPHABET = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
  ALPHABET[character.charCodeAt(0)] = 1;
}

/** Returns the decoded size of base64 with padding (RFC 4648 section 4); -1 when it is invalid. */
export function base64Size(bytes, start, end) {
  if ((end - start) % 4 !== 0) return -1;
  let padding = 0;
  while (padding < 2 && end - padding > start && bytes[end - 1 - padding] === EQUALS) padding++;
  for (let at = start; at < end - padding; at++) {
    if (ALPHABET[bytes[at]] === 0) return -1;
  }
  return ((end - start) / 4) * 3 - padding;
}

export class Upload {
  /** @param {Request} request with an unread body */
  constructor(request) {
    this.body = request.body;
    const declared = Number.parseInt(request.headers.get('content-length') ?? '', 10);
    /** `Content-Length`; -1 without one. */
    this.declared = Number.isSafeInteger(declared) ? declared : -1;
    /** The number of bytes read. */
    this.length = 0;
  }

  /**
   * Reads the body.
   * @param {number} maxBody in bytes
   * @param {number} maxFile in bytes
   * @param {number} maxFields the largest body without its content, in bytes
   * @param {number} minBytes the bytes that the client must send within `stallMs`
   * @returns {Promise<[string, string]>} a fault, or an empty string, and the JSON text with an empty `content`
   */
  async read(maxBody, maxFile, maxFields, minBytes, stallMs) {
    try {
      await this.#fill(maxBody, minBytes, stallMs);
      return ['', this.#extractContent(maxFile, maxFields)];
    } catch (error) {
      if (error instanceof Fault) return [error.message, ''];
      throw error;
    }
  }

  /** Returns the content between two ASCII texts, and releases the buffer. */
  frame(prefix, suffix) {
    const encoder = new TextEncoder();
    const before = encoder.encode(prefix);
    const after = encoder.encode(suffix);
    this.#ensureSpace(before.length, after.length);
    const { buffer, start, end } = this;
    const bytes = new Uint8Array(buffer);
    bytes.set(before, start - before.length);
    bytes.set(after, end);
    // The runtime stores an ASCII string with one byte per character.
    const text = new TextDecoder().decode(bytes.subarray(start - before.length, end + after.length));
    this.drop();
    return text;
  }

  /** Moves the content to a larger buffer when the free space is too small. */
  #ensureSpace(before, after) {
    const { buffer, start, end } = this;
    if (before <= start && end + after <= buffer.byteLength) return;
    const larger = new Uint8Array(before + end - start + after);
    larger.set(new Uint8Array(buffer, start, end - start), before);
    this.drop();
    Object.assign(this, { buffer: larger.buffer, start: before, end: before + end - start });
  }

  /** Releases the buffer without waiting for the garbage collector. */
  drop() {
    // A failed read has detached the buffer.
    if (this.buffer?.detached === false) this.buffer.transfer(0);
    this.buffer = undefined;
  }

  /** Reads the body into the buffer. */
  async #fill(limit, minBytes, stallMs) {
    if (this.declared > limit) throw new Fault('too-large');
    this.buffer = new ArrayBuffer(PREFIX_BYTES + (this.declared < 0 ? CHUNK_BYTES : this.declared) + SUFFIX_BYTES);
    if (this.body === null) return;
    const reader = this.body.getReader({ mode: 'byob' });
    let stalled = false;
    let timer;
    const restartTimer = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        stalled = true;
        reader.cancel().catch(() => {});
      }, stallMs);
    };
    try {
      for (;;) {
        restartTimer();
        const at = PREFIX_BYTES + this.length;
        if (this.length > limit) {
          // The lock is released for `discardBody`, which reads the rest before the response.
          reader.releaseLock();
          throw new Fault('too-large');
        }
        if (at + SUFFIX_BYTES > this.buffer.byteLength) {
          const largest = PREFIX_BYTES + limit + 1 + SUFFIX_BYTES;
          this.buffer = this.buffer.transfer(Math.min(2 * this.buffer.byteLength, largest));
        }
        const free = new Uint8Array(this.buffer, at, Math.min(CHUNK_BYTES, this.buffer.byteLength - at));
        const { value, done } = await reader.readAtLeast(Math.min(minBytes, free.byteLength), free);
        if (value !== undefined) {
          this.buffer = value.buffer;
          this.length += value.byteLength;
        }
        // A chunked body may be longer than its declared length, which determined the size of the buffer.
        if (this.declared >= 0 && this.length > this.declared) throw new Fault('broken');
        if (stalled) throw new Fault('stalled');
        if (done) return;
      }
    } catch (error) {
      if (error instanceof Fault) throw error;
      throw new Fault(stalled ? 'stalled' : 'broken');
    } finally {
      clearTimeout(timer);
      reader.cancel().catch(() => {});
    }
  }

  /** Finds and validates the content; returns the body with an empty content. */
  #extractContent(maxFile, maxFields) {
    const bytes = new Uint8Array(this.buffer, PREFIX_BYTES, this.length);
    const found = findContent(bytes, maxFields);
    const pieces = [];
    let fields = 0;
    let from = 0;
    for (const [start, end] of [...found, [bytes.length, bytes.length]]) {
      fields += start - from;
      if (fields > maxFields) throw new Fault('fields-too-large');
      pieces.push(decodeUtf8(bytes.subarray(from, start)));
      from = end;
    }
    // With none or two, the hub rejects the body for a missing or duplicate `content`.
    if (found.length === 1) {
      const [[start, last]] = found;
      const end = normalizeBase64(new Uint8Array(this.buffer), PREFIX_BYTES + start, PREFIX_BYTES + last) - PREFIX_BYTES;
      const size = base64Size(new Uint8Array(this.buffer, PREFIX_BYTES), start, end);
      if (size === -1) throw new Fault('bad-base64');
      if (size > maxFile) throw new Fault('too-large');
      this.start = PREFIX_BYTES + start;
      this.end = PREFIX_BYTES + end;
    }
    return pieces.join('');
  }
}

function decodeUtf8(bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Fault('not-utf8');
  }
}
