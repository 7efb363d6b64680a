// The body of an upload: {"filename", "content", "mimeType"}, of which `content` is base64 of up to 50 MB. It never
// crosses into wasm memory. It is read into one buffer with room before and after it, where the frame for the CLI is then
// written around the content; the text of that frame is the only copy, and the buffer is given back as soon as it exists.

/**
 * Room for what goes before the content in the frame, and after it. Scarce, so that the frame takes as many pages of memory
 * as the buffer did and finds its place: otherwise the holes of one upload are too small for the next.
 */
const HEAD_ROOM = 512;
const TAIL_ROOM = 512;
/** How much is read at a time, if it is there, and how large a buffer for a body of unknown length is at first. */
const ROOM = 1024 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const EQUALS = 0x3d;

/** Why a body was not taken; the words are those of `UploadFault` in src/hub/ports.rs. */
class Fault extends Error {}

const CONTENT = new TextEncoder().encode('"content"');

/** Whether a key, with its quotes, reads `content`; it may have escapes. */
function isContent(key) {
  if (key.length === CONTENT.length) return CONTENT.every((byte, at) => key[at] === byte);
  // Six bytes at most for each letter.
  if (key.length > 44 || !key.includes(BACKSLASH)) return false;
  try {
    return JSON.parse(new TextDecoder().decode(key)) === 'content';
  } catch {
    return false;
  }
}

/**
 * Where the values of the object's own `content` stand that are strings: none, one or two, for two are one too many. Given
 * up when there is more than `maxRest` bytes beside them.
 */
export function contents(bytes, maxRest) {
  const found = [];
  let at = 0;
  let rest = 0;
  const blank = () => {
    while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  };
  /** Goes behind the string that starts here; answers whether it ends at all. */
  const string = () => {
    for (let from = at + 1; ; ) {
      const quote = bytes.indexOf(QUOTE, from);
      if (quote === -1) return false;
      let slashes = 0;
      while (bytes[quote - 1 - slashes] === BACKSLASH) slashes++;
      if (slashes % 2 === 0) {
        at = quote + 1;
        return true;
      }
      from = quote + 1;
    }
  };
  blank();
  if (bytes[at++] !== 0x7b) return found;
  for (;;) {
    blank();
    const key = at;
    if (bytes[at] !== QUOTE || !string()) return found;
    const isNamed = isContent(bytes.subarray(key, at));
    blank();
    if (bytes[at++] !== 0x3a) return found;
    blank();
    const value = at;
    if (bytes[at] === QUOTE) {
      if (!string()) return found;
      if (isNamed) {
        found.push([value + 1, at - 1]);
        if (found.length === 2) return found;
        rest -= at - value;
      }
    } else {
      for (let depth = 0; at < bytes.length; at++) {
        const byte = bytes[at];
        if (byte === QUOTE) {
          if (!string()) return found;
          at--;
        } else if (byte === 0x7b || byte === 0x5b) depth++;
        else if (depth === 0 && (byte === 0x2c || byte === 0x7d)) break;
        else if (byte === 0x7d || byte === 0x5d) depth--;
      }
    }
    if (rest + at > maxRest) return found;
    blank();
    if (bytes[at++] !== 0x2c) return found;
  }
}

/**
 * Takes the escapes out of a JSON string of base64, in place: some clients write `\/` and `\u002B`.
 * @returns {number} where the string ends now
 */
export function unescapeBase64(bytes, start, end) {
  let from = bytes.indexOf(BACKSLASH, start);
  if (from === -1 || from >= end) return end;
  let to = from;
  while (from < end) {
    let byte = bytes[from++];
    if (byte === BACKSLASH) {
      byte = bytes[from++];
      if (byte === 0x75) {
        const digits = String.fromCharCode(...bytes.subarray(from, Math.min(from + 4, end)));
        byte = /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : 0;
        from += 4;
      } else if (byte !== 0x2f) byte = 0;
    }
    // Whatever is not base64 becomes something that is not base64 either.
    bytes[to++] = byte > 0x7f ? 0 : byte;
  }
  return to;
}

const ALPHABET = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
  ALPHABET[character.charCodeAt(0)] = 1;
}

/** The number of bytes that a base64 text stands for (RFC 4648 section 4, with padding); -1 when it is not one. */
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
  /** @param {Request} request whose body nobody has read */
  constructor(request) {
    this.body = request.body;
    const declared = Number.parseInt(request.headers.get('content-length') ?? '', 10);
    /** The length of the body in bytes, or -1 when the client does not say. */
    this.declared = Number.isSafeInteger(declared) ? declared : -1;
    /** How many bytes of it were read. */
    this.length = 0;
  }

  /**
   * Reads the body.
   * @param {number} maxFile the largest file, in bytes
   * @param {number} maxRest how much may stand beside the content, in bytes
   * @param {number} piece how much the client has to send at a time, in bytes
   * @param {number} stallMs how long it may take for that, in milliseconds
   * @returns {Promise<[string, string]>} the fault, if any, and the body as JSON text with an empty string in place of
   *   the content
   */
  async read(maxFile, maxRest, piece, stallMs) {
    try {
      await this.#fill(Math.ceil(maxFile / 3) * 4 + maxRest, piece, stallMs);
      return ['', this.#open(maxFile, maxRest)];
    } catch (error) {
      if (error instanceof Fault) return [error.message, ''];
      throw error;
    }
  }

  /** The frame: the content between two texts of ASCII. The body is gone after it. */
  frame(head, tail) {
    const encoder = new TextEncoder();
    const before = encoder.encode(head);
    const after = encoder.encode(tail);
    this.#makeRoom(before.length, after.length);
    const { buffer, start, end } = this;
    const bytes = new Uint8Array(buffer);
    bytes.set(before, start - before.length);
    bytes.set(after, end);
    // All of it is ASCII: the runtime keeps it with one byte a character.
    const text = new TextDecoder().decode(bytes.subarray(start - before.length, end + after.length));
    this.drop();
    return text;
  }

  /** Moves the content to a larger buffer when the names around it are too long for this one. */
  #makeRoom(before, after) {
    const { buffer, start, end } = this;
    if (before <= start && end + after <= buffer.byteLength) return;
    const larger = new Uint8Array(before + end - start + after);
    larger.set(new Uint8Array(buffer, start, end - start), before);
    this.drop();
    Object.assign(this, { buffer: larger.buffer, start: before, end: before + end - start });
  }

  /** Gives the memory back at once: the garbage collector would take its time. */
  drop() {
    // A read that failed took the buffer with it.
    if (this.buffer?.detached === false) this.buffer.transfer(0);
    this.buffer = undefined;
  }

  /** Reads the body into the buffer, in place: no other copy of it exists. */
  async #fill(limit, piece, stallMs) {
    if (this.declared > limit) throw new Fault('too-large');
    this.buffer = new ArrayBuffer(HEAD_ROOM + Math.max(this.declared, this.declared < 0 ? ROOM : 0) + TAIL_ROOM);
    if (this.body === null) return;
    const reader = this.body.getReader({ mode: 'byob' });
    let stalled = false;
    let timer;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        stalled = true;
        reader.cancel().catch(() => {});
      }, stallMs);
    };
    try {
      for (;;) {
        watch();
        const at = HEAD_ROOM + this.length;
        if (this.length > limit) throw new Fault('too-large');
        if (at + TAIL_ROOM > this.buffer.byteLength) {
          const largest = HEAD_ROOM + limit + 1 + TAIL_ROOM;
          this.buffer = this.buffer.transfer(Math.min(2 * this.buffer.byteLength, largest));
        }
        const room = new Uint8Array(this.buffer, at, Math.min(ROOM, this.buffer.byteLength - at));
        const { value, done } = await reader.readAtLeast(Math.min(piece, room.byteLength), room);
        if (value !== undefined) {
          this.buffer = value.buffer;
          this.length += value.byteLength;
        }
        // A chunked body may come with a length that is not its own, and the room for it was measured by that.
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

  /** Finds the content and checks it; answers the rest. */
  #open(maxFile, maxRest) {
    const bytes = new Uint8Array(this.buffer, HEAD_ROOM, this.length);
    const places = contents(bytes, maxRest);
    const pieces = [];
    let rest = 0;
    let kept = 0;
    for (const [start, end] of [...places, [bytes.length, bytes.length]]) {
      rest += start - kept;
      if (rest > maxRest) throw new Fault('rest-too-large');
      pieces.push(utf8(bytes.subarray(kept, start)));
      kept = end;
    }
    // None, or several: what stays says so itself.
    if (places.length === 1) {
      const [[start, last]] = places;
      const end = unescapeBase64(bytes, start, last);
      const size = base64Size(bytes, start, end);
      if (size === -1) throw new Fault('bad-base64');
      if (size > maxFile) throw new Fault('too-large');
      this.start = HEAD_ROOM + start;
      this.end = HEAD_ROOM + end;
    }
    return pieces.join('');
  }
}

function utf8(bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Fault('not-utf8');
  }
}
