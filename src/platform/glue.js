// The few places where staying in JavaScript is what makes them fast: text that only passes through never crosses into
// wasm memory.

/**
 * What is read of every request, as one text: each crossing of the border has its price.
 * @returns {string} lines: method, URL, then the named headers (empty when absent)
 */
export function head(request, names) {
  const { headers } = request;
  const lines = [request.method, request.url];
  for (const name of names.split(' ')) lines.push(headers.get(name) ?? '');
  return lines.join('\n');
}

/** How much of a body the client has to send in the time that it may stand still for, and how much is read at first. */
const PIECE_BYTES = 64 * 1024;

/** How long a client may take for a piece of a body, in milliseconds. */
const BODY_STALL_MS = 15_000;

/**
 * The body of a request, read no further than it may be long. Memory is taken as bytes come: what a client says of its
 * length costs nothing.
 * @param {number} limit in bytes
 * @returns {Promise<Uint8Array | 'too-large' | 'stalled' | 'broken'>} why there is none: it is longer, came too slowly, or
 *   broke off
 */
export async function body(request, limit) {
  const told = request.headers.get('content-length');
  if (Number(told) > limit) return 'too-large';
  if (request.body === null) return new Uint8Array(0);
  // A chunked body may come with a length that is not its own: not a byte more is read than was told.
  const most = told === null ? limit : Number(told);
  const reader = request.body.getReader({ mode: 'byob' });
  let stalled = false;
  let timer;
  let buffer = new ArrayBuffer(Math.min(PIECE_BYTES, most + 1));
  let length = 0;
  try {
    for (;;) {
      if (length === buffer.byteLength) buffer = buffer.transfer(Math.min(2 * length, most + 1));
      const room = new Uint8Array(buffer, length);
      const least = Math.min(PIECE_BYTES, room.length);
      timer = setTimeout(() => {
        stalled = true;
        reader.cancel().catch(() => {});
      }, BODY_STALL_MS);
      const { value, done } = await reader.readAtLeast(least, room);
      clearTimeout(timer);
      if (stalled) return 'stalled';
      buffer = value.buffer;
      length += value.length;
      if (length > most) {
        reader.cancel('The body is too long').catch(() => {});
        return 'too-large';
      }
      // Less than was asked for is the end of it.
      if (done || value.length < least) return new Uint8Array(buffer, 0, length);
    }
  } catch {
    clearTimeout(timer);
    return stalled ? 'stalled' : 'broken';
  }
}

/**
 * Carries a request to the object of a namespace, with a time limit in milliseconds.
 * @param {string} socket what a WebSocket to the object is for; empty for a plain request
 * @param {string} expiresAt when the token is good no more that the WebSocket was opened with; empty for never
 * @returns {Promise<Response | undefined>} undefined when the object did not answer in time
 */
export function carry(objects, namespace, socket, expiresAt, request, limit) {
  const object = objects.get(objects.idFromName(namespace));
  const headers = socket === '' ? plainHeaders(namespace, request) : socketHeaders(namespace, socket, expiresAt, request);
  const answer = object.fetch(request, { headers });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, limit);
    const inTime = (settle) => (outcome) => {
      clearTimeout(timer);
      settle(outcome);
    };
    answer.then(inTime(resolve), inTime(reject));
  });
}

/** What the object reads of a plain request, and nothing else that a client sent: each header is copied twice on its way. */
function plainHeaders(namespace, request) {
  const length = request.headers.get('content-length');
  return length === null ? { 'hub-namespace': namespace } : { 'hub-namespace': namespace, 'content-length': length };
}

/** The headers of an upgrade, in which these are always set, so that none of the name that a client sent gets through. */
function socketHeaders(namespace, socket, expiresAt, request) {
  const headers = new Headers(request.headers);
  headers.set('hub-namespace', namespace);
  headers.set('hub-socket', socket);
  headers.set('hub-expires-at', expiresAt);
  headers.set('upgrade', 'websocket');
  return headers;
}

/** The headers of the last answer, as their text and as the runtime holds them: nearly all answers have the same. */
let last = { text: '', headers: new Headers() };

/**
 * An answer.
 * @param {string} headers lines: names and values in turn
 * @param {Uint8Array} body a view into wasm memory, which must not be kept
 */
export function answer(status, headers, body) {
  if (headers !== last.text) last = { text: headers, headers: new Headers(pairs(headers)) };
  return new Response(status === 204 ? null : body.slice(), { status, headers: last.headers });
}

/** How long a client may take for a part of a large answer, in milliseconds: until it has it all, it keeps others out. */
const ANSWER_STALL_MS = 60_000;

/**
 * A large answer, which leaves in parts: whole it would be in memory twice, in wasm and here. It breaks off when its client
 * is gone or does not read. The stream is one of the runtime's own: of others nobody hears that their client is gone.
 * @param {string} headers lines: names and values in turn
 * @param {(more: boolean) => Uint8Array | undefined} part the next part of the body; without more, the rest is dropped
 * @param {{waitUntil: (work: Promise<void>) => void}} context outlives the client: in that of its request alone nothing would
 *   happen any more
 */
export function answerInParts(status, headers, part, context) {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const taken = (work) => within(work, ANSWER_STALL_MS, 'The client does not read');
  const pass = async () => {
    try {
      for (let next = part(true); next !== undefined; next = part(true)) await taken(writer.write(next));
      await taken(writer.close());
    } catch (error) {
      writer.abort(error).catch(() => {});
      part(false);
    }
  };
  context.waitUntil(pass());
  return new Response(readable, { status, headers: pairs(headers) });
}

/** Names and values in turn, a line each, as pairs. */
export function pairs(headers) {
  const lines = headers.split('\n');
  const pairs = [];
  for (let i = 0; i + 1 < lines.length; i += 2) pairs.push([lines[i], lines[i + 1]]);
  return pairs;
}

/**
 * Posts a body to a server that a client named: it is not followed elsewhere, and what it says besides is not read.
 * @param {string} headers lines: names and values in turn
 * @param {Uint8Array} body a view into wasm memory, which must not be kept
 * @param {number} limit in milliseconds
 * @returns {Promise<string>} lines: status and `Retry-After`; or one line that says why there is no answer
 */
export async function post(url, headers, body, limit) {
  const late = new AbortController();
  const init = { method: 'POST', headers: pairs(headers), body: body.slice(), redirect: 'manual', signal: late.signal };
  // One that `AbortSignal.timeout` makes would run on after the answer, and keep the object awake.
  const timer = setTimeout(() => late.abort(), limit);
  try {
    const answer = await fetch(url, init);
    // Its status is all that counts: a body that can't be put away must not make a second push of this one.
    answer.body?.cancel().catch(() => {});
    return `${answer.status}\n${answer.headers.get('retry-after') ?? ''}`;
  } catch {
    return late.signal.aborted ? 'The push service did not answer in time.' : 'The push service could not be reached.';
  } finally {
    clearTimeout(timer);
  }
}

/** How long D1 may take, in milliseconds: it gives a batch up itself after 30 s. */
const D1_LIMIT_MS = 35_000;

/** What comes of work, or the error that it took longer than `limit` milliseconds. */
function within(work, limit, message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), limit);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** What D1 answers. A hub that waited for ever, when an answer never comes, would write nothing any more. */
export function inTime(answer) {
  return within(answer, D1_LIMIT_MS, 'D1 did not answer in time');
}

/**
 * Runs statements as one D1 batch.
 * @param {[string, unknown[]][]} statements SQL and parameters
 * @returns {Promise<unknown[][][]>} for each statement its rows, each with its columns in the order of the SELECT
 */
export async function batch(db, statements) {
  const results = await inTime(db.batch(statements.map(([sql, params]) => db.prepare(sql).bind(...params))));
  return results.map((result) => result.results.map((row) => Object.values(row)));
}

/**
 * Runs one statement whose rows are [number, text, parts, ...], and joins the texts of the first `limit` rows.
 * @param {[string, unknown[]]} statement
 * @returns {Promise<[string, number, number | undefined, number]>} the texts, the number of rows, the last joined row's
 *   number, how many of the joined rows have parts
 */
export async function joined(db, [sql, params], limit) {
  const rows = await inTime(db.prepare(sql).bind(...params).raw());
  const first = rows.slice(0, limit);
  const inParts = first.filter((row) => row[2] > 0).length;
  return [first.map((row) => row[1]).join(','), rows.length, first.at(-1)?.[0], inParts];
}

/** A frame of more characters is not small: as many bytes as a client without a token may send. */
const SMALL_FRAME = 16 * 1024;

/**
 * The text of a frame, unless it is to be asked first whether one of its size may come in.
 * @param {string | ArrayBuffer} frame
 * @returns {string | undefined} undefined for a frame that is not small, or binary
 */
export function smallText(frame) {
  return typeof frame === 'string' && frame.length <= SMALL_FRAME ? frame : undefined;
}

const ENCODER = new TextEncoder();

/** @param {string} text */
export function utf8(text) {
  return ENCODER.encode(text);
}

/** How much of a client may wait until it is joined with its object: frames, and their characters or bytes. */
const MAX_WAITING_FRAMES = 256;
const MAX_WAITING_SIZE = 256 * 1024;

/** Closes a socket as another one was closed. */
function closeLike(socket, { code, reason }) {
  try {
    // 1005 and 1006 tell of a missing or broken close and can't be sent.
    if (code === 1005 || code === 1006) socket.close(1001, 'Peer is gone');
    else socket.close(code, reason);
  } catch {
    // It is closed already.
  }
}

/**
 * The messages of an accepted WebSocket as a queue, until they are handed over to another socket. Whoever is at its
 * other end has not shown a token yet: what it sends is bounded.
 */
export class Inbox {
  /**
   * @param {number} largest the largest frame, in characters or bytes
   * @param {string} tooLarge the reason for closing the socket on a larger one
   */
  constructor(socket, largest, tooLarge) {
    this.socket = socket;
    this.waiting = [];
    this.size = 0;
    this.closed = false;
    this.wake = () => {};
    this.take = (data) => {
      const size = data.length ?? data.byteLength;
      this.waiting.push(data);
      this.size += size;
      if (size > largest) this.refuse({ code: 1009, reason: tooLarge });
      else if (this.waiting.length > MAX_WAITING_FRAMES || this.size > MAX_WAITING_SIZE) {
        this.refuse({ code: 1008, reason: 'Too many frames at once' });
      }
      this.wake();
    };
    this.end = () => this.wake();
    // A blob would be sent on as the words "[object Blob]".
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => this.closed || this.take(event.data));
    const closed = (event) => {
      this.closed = true;
      this.end(event);
      // Until this side is closed as well, the runtime takes a connection that broke for one that hangs.
      closeLike(socket, event);
    };
    socket.addEventListener('close', closed);
    // A connection that breaks may have no close event.
    socket.addEventListener('error', () => closed({ code: 1006 }));
  }

  /** Hangs up on a client that sends too much, and forgets what it sent. */
  refuse(event) {
    this.closed = true;
    this.waiting = [];
    closeLike(this.socket, event);
  }

  /** The next message, or undefined when none comes within `ms` milliseconds or the socket closes. */
  async next(ms) {
    const deadline = Date.now() + ms;
    while (this.waiting.length === 0 && !this.closed) {
      const left = deadline - Date.now();
      if (left <= 0) return undefined;
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const data = this.waiting.shift();
    this.size -= data?.length ?? data?.byteLength ?? 0;
    return data;
  }

  /**
   * Joins the socket with another one: `first` and what waits here go ahead, from then on all passes both ways. What one
   * side does not take fast enough waits in the runtime.
   */
  join(first, other) {
    const pass = (to) => (data) => {
      try {
        to.send(data);
      } catch {
        // The other side is closing; its close event follows.
      }
    };
    this.take = pass(other);
    this.end = (event) => closeLike(other, event);
    const toClient = pass(this.socket);
    other.binaryType = 'arraybuffer';
    other.addEventListener('message', (event) => toClient(event.data));
    other.addEventListener('close', (event) => closeLike(this.socket, event));
    other.accept();
    for (const data of [first, ...this.waiting.splice(0)]) this.take(data);
    if (this.closed) this.end({ code: 1006 });
  }
}

/** How much of an event stream may wait for its client, in bytes: twice the largest event, which must not end a stream. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;

/**
 * A stream of finished SSE text, fed by a socket to the object. A client that went away is noticed by a failing write:
 * the socket is closed then.
 */
export function eventStream(socket) {
  const { readable, writable } = new TransformStream();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const hangUp = () => {
    try {
      socket.close(1001, 'Client is gone');
    } catch {
      // It is closed already.
    }
  };
  let waiting = 0;
  socket.addEventListener('message', (event) => {
    const bytes = encoder.encode(event.data);
    waiting += bytes.length;
    // A client that does not read must not fill the memory of all; it comes back with what it heard last.
    if (waiting > MAX_UNREAD_BYTES) {
      writer.abort('The client does not read').catch(() => {});
      return hangUp();
    }
    return writer.write(bytes).then(() => (waiting -= bytes.length), hangUp);
  });
  socket.addEventListener('close', () => writer.close().catch(() => {}));
  writer.closed.catch(hangUp);
  socket.accept();
  return readable;
}
