// The body of an upload: {"filename", "content", "mimeType"}, where `content` is the base64 of a file. The body is not copied
// into wasm memory, but read piece by piece: the content goes to one buffer with free space at both ends. The start and end of
// a frame for the CLI are written into the free space, around the content. Decoding the frame to a string makes the only copy.

import { readAtLeast } from './glue.js';
import { logError } from './log.js';

/**
 * The free space at the ends of the buffer. It is small, so that the frame and the buffer need equally many pages of memory:
 * otherwise memory becomes too fragmented for the next upload.
 */
const PREFIX_BYTES = 512;
const SUFFIX_BYTES = 512;
/** The largest read of the body, a part of `UPLOAD_MEMORY_BYTES` (src/limits.rs). */
const INPUT_BYTES = 128 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const EQUALS = 0x3d;
const SLASH = 0x2f;
const LINE_BREAKS = [0x0a, 0x0d];
const [LETTER_N, LETTER_R, LETTER_U] = new TextEncoder().encode('nru');

/** Maps each character of base64 to the character of the standard alphabet (RFC 4648 section 4); 0 for other bytes. */
const STANDARD = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
  STANDARD[character.charCodeAt(0)] = character.charCodeAt(0);
}
[STANDARD['-'.charCodeAt(0)], STANDARD['_'.charCodeAt(0)]] = new TextEncoder().encode('+/');

/** The values of hexadecimal digits, -1 for other characters. */
const HEX_DIGITS = new Int8Array(256).fill(-1);
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  HEX_DIGITS[digit.charCodeAt(0)] = value;
  HEX_DIGITS[digit.toUpperCase().charCodeAt(0)] = value;
}

/** The message is an `UploadFault` (src/hub/core/ports.rs) in kebab-case. */
class Fault extends Error {}

/** Finds the content in the bytes of a body, which come in pieces of any size. */
export class Parser {
  /** The body without its content. */
  #fields = [];
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  /** Where the last string of the object begins in `#fields`; -1 after a colon. */
  #keyStart = -1;
  #isContentNext = false;
  /** `none` before the content, `open` inside the content, `closed` after the content. */
  #contentState = 'none';
  /** The number of read characters of an escape in the content. */
  #escapeLength = 0;
  #escapeValue = 0;
  /** The number of characters of the content, padding included. */
  #contentLength = 0;
  #padding = 0;

  /** @param {number} maxFields the largest body without its content, in bytes */
  constructor(maxFields) {
    this.maxFields = maxFields;
  }

  /** The size of the decoded content so far, in bytes. */
  get size() {
    return Math.floor((this.#contentLength * 3) / 4) - this.#padding;
  }

  /** The text of the body with an empty content. */
  get fields() {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(this.#fields));
    } catch {
      throw new Fault('not-utf8');
    }
  }

  /**
   * Reads bytes of the body, and writes the content in the standard alphabet of base64, padded and without line breaks.
   * @param {Uint8Array} input
   * @param {number} at where to begin in `input`
   * @param {Uint8Array} output with space for whole groups of four characters
   * @param {number} end where to write in `output`
   * @returns {[number, number]} the ends in `input`, before its end when `output` is full, and in `output`
   */
  parse(input, at, output, end) {
    while (at < input.length) {
      if (this.#contentState !== 'open') {
        this.#readField(input[at++]);
        continue;
      }
      if (this.#escapeLength === 0 && this.#padding === 0) {
        const start = end;
        let character;
        while (end < output.length && (character = STANDARD[input[at]]) > 0) {
          output[end++] = character;
          at++;
        }
        this.#contentLength += end - start;
        if (at === input.length) break;
      }
      if (end === output.length && input[at] !== QUOTE) break;
      end = this.#readContent(input[at++], output, end);
    }
    return [at, end];
  }

  #readField(byte) {
    if (this.#fields.push(byte) > this.maxFields) throw new Fault('fields-too-large');
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#isInString = false;
      return;
    }
    switch (byte) {
      case QUOTE:
        if (this.#isContentNext) {
          this.#isContentNext = false;
          this.#contentState = 'open';
          return;
        }
        this.#isInString = true;
        if (this.#depth === 1) this.#keyStart = this.#fields.length - 1;
        return;
      case 0x3a: // :
        if (this.#depth === 1 && this.#keyStart >= 0) this.#isContentNext = this.#contentState === 'none' && this.#isContentKey();
        this.#keyStart = -1;
        return;
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        return;
      case 0x7b: // {
      case 0x5b: // [
        this.#depth++;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        this.#depth--;
    }
    this.#isContentNext = false;
  }

  #isContentKey() {
    const key = Uint8Array.from(this.#fields.slice(this.#keyStart, -1));
    try {
      return JSON.parse(new TextDecoder().decode(key)) === 'content';
    } catch {
      return false;
    }
  }

  /** Reads a byte of the content that is not plain base64. Some clients write `\/` or `\u002B`. Skips escaped line breaks. */
  #readContent(byte, output, end) {
    if (this.#escapeLength === 0) {
      if (byte === QUOTE) return this.#endContent(output, end);
      if (byte !== BACKSLASH) return this.#write(byte, output, end);
      this.#escapeLength = 1;
      return end;
    }
    if (this.#escapeLength === 1) {
      if (byte === LETTER_U) {
        this.#escapeLength = 2;
        this.#escapeValue = 0;
        return end;
      }
      this.#escapeLength = 0;
      if (byte === LETTER_N || byte === LETTER_R) return end;
      if (byte !== SLASH) throw new Fault('bad-base64');
      return this.#write(byte, output, end);
    }
    if (HEX_DIGITS[byte] < 0) throw new Fault('bad-base64');
    this.#escapeValue = 16 * this.#escapeValue + HEX_DIGITS[byte];
    if (++this.#escapeLength < 6) return end;
    this.#escapeLength = 0;
    return LINE_BREAKS.includes(this.#escapeValue) ? end : this.#write(this.#escapeValue, output, end);
  }

  #write(code, output, end) {
    if (code === EQUALS) {
      if (++this.#padding > 2) throw new Fault('bad-base64');
      output[end] = EQUALS;
    } else {
      if (this.#padding > 0 || !(STANDARD[code] > 0)) throw new Fault('bad-base64');
      output[end] = STANDARD[code];
    }
    this.#contentLength++;
    return end + 1;
  }

  #endContent(output, end) {
    this.#fields.push(QUOTE);
    this.#contentState = 'closed';
    const surplus = this.#contentLength % 4;
    if (surplus === 0) return end;
    if (surplus === 1 || this.#padding > 0) throw new Fault('bad-base64');
    let padded = end;
    for (let missing = 4 - surplus; missing > 0; missing--) padded = this.#write(EQUALS, output, padded);
    return padded;
  }
}

export class Upload {
  #body;
  #reader;
  #parser;
  #minBytes;
  #progressTimeoutMs;
  /** `Content-Length`; -1 if the request has none. */
  #declaredBytes;
  #inputBuffer = new ArrayBuffer(INPUT_BYTES);
  #input = new Uint8Array(0);
  /** The offset in `#input` at which to continue. */
  #inputOffset = 0;
  #receivedBytes = 0;
  #hasEnded = false;
  #buffer = new ArrayBuffer(0);
  /** The end of the content in the buffer. The content begins at `PREFIX_BYTES`. */
  #end = PREFIX_BYTES;

  /**
   * @param {Request} request with an unread body
   * @param {number} maxFields the largest body without its content, in bytes
   * @param {number} minBytes the bytes that the client must send within `progressTimeoutMs`
   * @param {number} progressTimeoutMs
   */
  constructor(request, maxFields, minBytes, progressTimeoutMs) {
    this.#body = request.body;
    this.#parser = new Parser(maxFields);
    this.#minBytes = minBytes;
    this.#progressTimeoutMs = progressTimeoutMs;
    const declared = Number.parseInt(request.headers.get('content-length') ?? '', 10);
    this.#declaredBytes = Number.isSafeInteger(declared) ? declared : -1;
  }

  /** The size of the decoded content that was read, in bytes. */
  get size() {
    return this.#parser.size;
  }

  /**
   * Reads until the buffer has `bufferChars` characters of content, or to the end of the body.
   * @param {number} bufferChars a multiple of 4
   * @param {number} maxFile in bytes
   * @param {number} maxBody in bytes
   * @returns {Promise<[string, string | undefined]>} a fault or an empty string; at the end, the JSON text with an empty `content`
   */
  async read(bufferChars, maxFile, maxBody) {
    try {
      if (this.#declaredBytes > maxBody) throw new Fault('too-large');
      while (!this.#hasEnded) {
        const output = this.#ensureSpace(bufferChars);
        [this.#inputOffset, this.#end] = this.#parser.parse(this.#input, this.#inputOffset, output, this.#end);
        if (this.size > maxFile) throw new Fault('too-large');
        if (this.#inputOffset === this.#input.length) await this.#receive(maxBody);
        else if (this.#end === PREFIX_BYTES + bufferChars) return ['', undefined];
      }
      return ['', this.#parser.fields];
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.release();
      return [error.message, undefined];
    }
  }

  /** Returns the buffered content between two ASCII texts, and empties the buffer. Without memory for the frame, returns undefined and logs it. */
  frame(prefix, suffix) {
    try {
      return this.#makeFrame(prefix, suffix);
    } catch (error) {
      logError('upload-frame-failed', error);
      return undefined;
    }
  }

  #makeFrame(prefix, suffix) {
    const encoder = new TextEncoder();
    const before = encoder.encode(prefix);
    const after = encoder.encode(suffix);
    const start = this.#makeSpaceAround(before.length, after.length);
    const bytes = new Uint8Array(this.#buffer);
    bytes.set(before, start - before.length);
    bytes.set(after, this.#end);
    // The runtime stores an ASCII string with one byte per character.
    const text = new TextDecoder().decode(bytes.subarray(start - before.length, this.#end + after.length));
    this.#end = PREFIX_BYTES;
    if (this.#hasEnded) this.release();
    return text;
  }

  /** Releases the buffer without waiting for the garbage collector, and the body for `discardBody`. */
  release() {
    if (!this.#buffer.detached) this.#buffer.transfer(0);
    try {
      this.#reader?.releaseLock();
    } catch {
      // A read is in progress.
      this.#reader.cancel().catch(() => {});
    }
    this.#reader = undefined;
  }

  /** Enlarges a full buffer, up to `bufferChars` for the content. Returns a view of the buffer without the free space at its end. */
  #ensureSpace(bufferChars) {
    let space = this.#buffer.byteLength - PREFIX_BYTES - SUFFIX_BYTES;
    if (this.#end >= PREFIX_BYTES + space && space < bufferChars) {
      const needed = this.#declaredBytes < 0 ? Math.max(INPUT_BYTES, 2 * space) : this.#declaredBytes;
      space = Math.min(bufferChars, needed);
      this.#buffer = this.#buffer.transfer(PREFIX_BYTES + space + SUFFIX_BYTES);
    }
    return new Uint8Array(this.#buffer, 0, PREFIX_BYTES + Math.min(bufferChars, space));
  }

  /** Moves the content to a larger buffer if the free space at the ends is too small. Returns where the content begins. */
  #makeSpaceAround(before, after) {
    if (before <= PREFIX_BYTES && this.#end + after <= this.#buffer.byteLength) return PREFIX_BYTES;
    const length = this.#end - PREFIX_BYTES;
    const larger = new Uint8Array(before + length + after);
    larger.set(new Uint8Array(this.#buffer, PREFIX_BYTES, length), before);
    this.#buffer.transfer(0);
    this.#buffer = larger.buffer;
    this.#end = before + length;
    return before;
  }

  /** Reads the next bytes of the body into `#input`. */
  async #receive(maxBody) {
    // The rest of the body stays unread: `discardBody` reads it.
    if (this.#receivedBytes > maxBody) throw new Fault('too-large');
    if (this.#body === null) {
      this.#hasEnded = true;
      return;
    }
    this.#reader ??= this.#body.getReader({ mode: 'byob' });
    const read = await readAtLeast(this.#reader, this.#minBytes, new Uint8Array(this.#inputBuffer), this.#progressTimeoutMs);
    if (typeof read === 'string') throw new Fault(read);
    this.#hasEnded = read.done;
    if (read.value === undefined) return;
    this.#input = read.value;
    this.#inputBuffer = read.value.buffer;
    this.#inputOffset = 0;
    this.#receivedBytes += read.value.length;
    // A chunked body may be longer than its declared length, which determined the size of the buffer.
    if (this.#declaredBytes >= 0 && this.#receivedBytes > this.#declaredBytes) throw new Fault('broken');
  }
}
