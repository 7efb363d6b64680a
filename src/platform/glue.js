// Functions that are faster in JavaScript: large texts are not copied into wasm memory, and small ones are joined, because each
// call between JavaScript and wasm has a cost. Lists of headers are alternating lines with a name and a value.

/**
 * @param {string} names of headers, separated by spaces
 * @returns {string} lines: the method, the URL, then the values of the headers, empty for an absent header
 */
export function readHead(request, names) {
  const { headers } = request;
  const lines = [request.method, request.url];
  for (const name of names.split(' ')) lines.push(headers.get(name) ?? '');
  return lines.join('\n');
}

/** How many bytes of a refused body are read: as many as the platform's smaller plans accept. */
const MAX_DISCARDED_BYTES = 100_000_000;
/** How long the client of a refused body may pause before the hub sends the response. */
const DISCARD_PAUSE_MS = 2_000;
/** How long a refused body is read at most: a client that sends slowly must not keep the object awake. */
const DISCARD_TIMEOUT_MS = 60_000;

/**
 * Reads and discards the unread part of a request's body: otherwise a client that is still sending would get a reset
 * connection instead of the response. Stops after `maxBytes`, after `totalMs`, or when nothing arrives for `idleMs`.
 * @returns {Promise<void> | undefined} undefined if there is no body, or if another function reads it
 */
export function discardBody(request, maxBytes = MAX_DISCARDED_BYTES, idleMs = DISCARD_PAUSE_MS, totalMs = DISCARD_TIMEOUT_MS) {
  if (request.body === null || request.body.locked) return undefined;
  return discardRest(request.body.getReader(), maxBytes, idleMs, totalMs);
}

async function discardRest(reader, maxBytes, idleMs, totalMs) {
  const deadline = Date.now() + totalMs;
  try {
    for (let bytes = 0; bytes <= maxBytes && Date.now() < deadline; ) {
      const { value, done } = await within(reader.read(), Math.min(idleMs, deadline - Date.now()));
      if (done) break;
      bytes += value.byteLength;
    }
  } catch {
    // The client is gone, or pauses for too long.
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Reads at least `minBytes` of a body, or its rest, into a buffer. Cancels the body if its client takes longer than `timeoutMs`.
 * @param {Uint8Array<ArrayBuffer>} buffer is detached
 * @returns {Promise<{value: Uint8Array<ArrayBuffer> | undefined, done: boolean} | 'stalled' | 'broken'>} the bytes that were read
 */
export async function readAtLeast(reader, minBytes, buffer, timeoutMs) {
  let stalled = false;
  const timer = setTimeout(() => {
    stalled = true;
    reader.cancel().catch(() => {});
  }, timeoutMs);
  try {
    const read = await reader.readAtLeast(minBytes, buffer);
    return stalled ? 'stalled' : read;
  } catch {
    return stalled ? 'stalled' : 'broken';
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Reads the body of a request, up to the limit. The buffer grows with the received bytes, not with the declared length.
 * @param {number | undefined} declaredBytes the `Content-Length` of the request, in bytes
 * @param {number} limit in bytes
 * @param {number} chunkBytes the bytes that the client must send within `progressTimeoutMs`; also the initial size of the buffer
 * @param {number} totalTimeoutMs the time to send the whole body
 * @param {((bytes: number) => Promise<boolean>) | undefined} reserve waits for memory before the buffer grows to this size;
 *   undefined if `declaredBytes` or `limit` is below `chunkBytes`
 * @returns {Promise<Uint8Array | 'too-large' | 'stalled' | 'broken' | 'overloaded'>}
 */
export async function readBody(request, declaredBytes, limit, chunkBytes, progressTimeoutMs, totalTimeoutMs, reserve) {
  if (declaredBytes > limit) return 'too-large';
  const { body } = request;
  if (body === null) return new Uint8Array(0);
  // A chunked body may be longer than its declared length.
  const maxBytes = declaredBytes ?? limit;
  const reader = body.getReader({ mode: 'byob' });
  const deadline = Date.now() + totalTimeoutMs;
  let buffer = new ArrayBuffer(Math.min(chunkBytes, maxBytes + 1));
  let length = 0;
  for (;;) {
    if (length === buffer.byteLength) {
      const size = Math.min(2 * length, maxBytes + 1);
      if (!(await reserve(size))) {
        reader.releaseLock();
        return 'overloaded';
      }
      buffer = buffer.transfer(size);
    }
    const freeSpace = new Uint8Array(buffer, length);
    const minBytes = Math.min(chunkBytes, freeSpace.length);
    const read = await readAtLeast(reader, minBytes, freeSpace, Math.min(progressTimeoutMs, deadline - Date.now()));
    if (typeof read === 'string') return read;
    const { value, done } = read;
    if (value === undefined) return 'broken';
    buffer = value.buffer;
    length += value.length;
    if (length > maxBytes) {
      reader.releaseLock();
      return 'too-large';
    }
    // A read that is shorter than requested is the last one.
    if (done || value.length < minBytes) return new Uint8Array(buffer, 0, length);
  }
}

/** The headers of the last response: nearly all responses have the same headers. */
let cached = { text: '', headers: new Headers() };

/**
 * Writes the data points of a namespace to Analytics Engine (docs/MONITORING.md). A point has at most 20 numbers.
 * @param {{METRICS: {writeDataPoint: (point: object) => void}}} env
 * @param {string} namespaceHash
 * @param {Float64Array} changes a view of wasm memory, as is `gauges`
 * @param {Float64Array} gauges
 */
export function writeDataPoints(env, namespaceHash, changes, gauges) {
  for (const [kind, numbers] of Object.entries({ object: changes, gauges })) {
    env.METRICS.writeDataPoint({ indexes: [namespaceHash], blobs: [kind], doubles: [...numbers] });
  }
}

/**
 * @param {string} headers
 * @param {Uint8Array} body a view of wasm memory, which is invalid after the call
 */
export function createResponse(status, headers, body) {
  if (headers !== cached.text) cached = { text: headers, headers: new Headers(parseHeaders(headers)) };
  return new Response(status === 204 ? null : body.slice(), { status, headers: cached.headers });
}

/** The time in which a client must read a chunk of a streamed response, because unread chunks use memory. */
const READ_TIMEOUT_MS = 60_000;
/** For the first chunk: together with `EDGE_TIMEOUT_MS` (src/limits.rs), less than the worker's 30 s. A client that is gone reads nothing. */
const FIRST_READ_TIMEOUT_MS = 8_000;
/** The bytes that a client must read in a second on average, in addition to `READ_TIMEOUT_MS`. */
const MIN_READ_BYTES_PER_SECOND = 64 * 1024;

/**
 * Streams a large response in chunks: copied at once, it would be in memory twice, in wasm and in JavaScript. Uses the
 * runtime's `IdentityTransformStream`, because other streams don't report that the client has disconnected.
 * @param {string} headers
 * @param {(more: boolean) => Uint8Array | undefined} next `next(true)` returns the next chunk; `next(false)` drops the rest
 * @param {{waitUntil: (work: Promise<void>) => void}} context outlives the request, which ends when its client disconnects
 * @param {number} length of the body, in bytes
 */
export function streamedResponse(status, headers, next, context, length) {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const writeAll = async () => {
    let ms = FIRST_READ_TIMEOUT_MS;
    for (let chunk = next(true); chunk !== undefined; chunk = next(true)) {
      await within(writer.write(chunk), ms);
      ms = READ_TIMEOUT_MS;
    }
    await within(writer.close(), READ_TIMEOUT_MS);
  };
  const write = async () => {
    try {
      await within(writeAll(), READ_TIMEOUT_MS + (1_000 * length) / MIN_READ_BYTES_PER_SECOND);
    } catch (error) {
      writer.abort(error).catch(() => {});
      next(false);
    }
  };
  context.waitUntil(write());
  return new Response(readable, { status, headers: parseHeaders(headers) });
}

/**
 * @param {string} headers alternating lines with a name and a value
 * @returns {[name: string, value: string][]}
 */
export function parseHeaders(headers) {
  const lines = headers.split('\n');
  /** @type {[name: string, value: string][]} */
  const pairs = [];
  for (let i = 0; i + 1 < lines.length; i += 2) pairs.push([lines[i], lines[i + 1]]);
  return pairs;
}

/**
 * Sends a POST request to a push service. Follows no redirect and reads no body, because a client has chosen the URL.
 * @param {string} headers
 * @param {Uint8Array} body a view of wasm memory, which is invalid after the call
 * @returns {Promise<string>} two lines, status and `Retry-After`; or an error message
 */
export async function sendPost(url, headers, body, timeoutMs) {
  const timeout = new AbortController();
  /** @type {RequestInit} */
  const init = {
    method: 'POST',
    headers: parseHeaders(headers),
    body: body.slice(),
    redirect: 'manual',
    signal: timeout.signal,
  };
  // The timer of `AbortSignal.timeout` can't be cleared, and would keep the object awake after the response.
  const timer = setTimeout(() => timeout.abort(), timeoutMs);
  try {
    const response = await fetch(url, init);
    // The push was delivered even if canceling fails.
    response.body?.cancel().catch(() => {});
    return `${response.status}\n${response.headers.get('retry-after') ?? ''}`;
  } catch {
    return timeout.signal.aborted ? 'The push service did not answer in time.' : 'The push service could not be reached.';
  } finally {
    clearTimeout(timer);
  }
}

/** Rejects if `work` takes longer. */
function within(work, timeoutMs) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('The client does not read')), timeoutMs);
  });
  return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/**
 * Runs statements as one D1 batch.
 * @param {[string, unknown[]][]} statements SQL and parameters
 * @returns {Promise<unknown[][][]>} the rows of each statement, with the columns in the order of the SELECT
 */
export async function runBatch(db, statements) {
  const prepared = statements.map(([sql, params]) => db.prepare(sql).bind(...params));
  const results = await db.batch(prepared);
  return results.map((result) => result.results.map((row) => Object.values(row)));
}

/**
 * Runs a statement whose rows are [seq, text], and joins the texts of the first `limit` rows with commas.
 * @param {{prepare: (sql: string) => any}} db
 * @param {[string, unknown[]]} statement SQL and parameters
 * @param {number} limit
 * @returns {Promise<[string, number, number | undefined]>} the joined texts, the number of rows, the seq of the last joined row
 */
export async function queryJoined(db, [sql, params], limit) {
  const rows = await db
    .prepare(sql)
    .bind(...params)
    .raw();
  const first = rows.slice(0, limit);
  return [first.map((row) => row[1]).join(','), rows.length, first.at(-1)?.[0]];
}

/**
 * Returns the size of a database in bytes.
 * @param {{prepare: (sql: string) => any, batch: (statements: any[]) => Promise<{meta: any}[]>}} db
 */
export async function databaseSize(db) {
  const [{ meta }] = await db.batch([db.prepare('SELECT 1')]);
  return meta.size_after;
}

/**
 * @param {string | ArrayBuffer} frame
 * @returns {string | undefined} undefined for a binary frame, and for a frame of more than `maxChars`
 */
export function smallText(frame, maxChars) {
  return typeof frame === 'string' && frame.length <= maxChars ? frame : undefined;
}

const ENCODER = new TextEncoder();

/** @param {string} text */
export function encodeUtf8(text) {
  return ENCODER.encode(text);
}

/**
 * Closes a socket with the code and reason of another socket's close event.
 * @param {WebSocket} socket
 * @param {{code?: number, reason?: string}} event
 */
function propagateClose(socket, { code, reason }) {
  try {
    // 1005 and 1006 must not be sent (RFC 6455 section 7.4.1).
    if (code === 1005 || code === 1006) socket.close(1001, 'Peer is gone');
    else socket.close(code, reason);
  } catch {
    // The socket is already closed.
  }
}

/** The limits of the queue of an `Inbox`: frames, and characters of text frames plus bytes of binary frames. */
const MAX_QUEUED_FRAMES = 256;
const MAX_QUEUED_SIZE = 256 * 1024;

/** Queues the messages of an accepted WebSocket until it is piped to another. Limits their sizes: the client is not authenticated. */
export class Inbox {
  /**
   * @param {number} maxFrame in characters or bytes
   * @param {string} tooLarge the reason of the close after a larger frame
   */
  constructor(socket, maxFrame, tooLarge) {
    this.socket = socket;
    this.queue = [];
    this.size = 0;
    this.closed = false;
    this.notify = () => {};
    this.onMessage = (data) => {
      const size = data.length ?? data.byteLength;
      this.queue.push(data);
      this.size += size;
      if (size > maxFrame) this.reject({ code: 1009, reason: tooLarge });
      else if (this.queue.length > MAX_QUEUED_FRAMES || this.size > MAX_QUEUED_SIZE) {
        this.reject({ code: 1008, reason: 'Too many frames at once' });
      }
      this.notify();
    };
    /** @type {(event: {code?: number, reason?: string}) => void} */
    this.onClose = () => this.notify();
    // A Blob would be sent as the text "[object Blob]".
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => this.closed || this.onMessage(event.data));
    const closed = (event) => {
      this.closed = true;
      this.onClose(event);
      // A broken connection stays open in the runtime until this side is closed too.
      propagateClose(socket, event);
    };
    socket.addEventListener('close', closed);
    // After an error, there may be no close event.
    socket.addEventListener('error', () => closed({ code: 1006 }));
  }

  reject(event) {
    this.closed = true;
    this.queue = [];
    propagateClose(this.socket, event);
  }

  /** @returns the next message; undefined after `timeoutMs` or when the socket is closed */
  async next(timeoutMs) {
    const deadline = Date.now() + timeoutMs;
    while (this.queue.length === 0 && !this.closed) {
      const remaining = deadline - Date.now();
      if (remaining <= 0) return undefined;
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, remaining);
        this.notify = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const data = this.queue.shift();
    this.size -= data?.length ?? data?.byteLength ?? 0;
    return data;
  }

  /** Sends `first` and the queue to another socket, then pipes the two sockets to each other. The runtime buffers the frames. */
  pipe(first, other) {
    const sendTo = (socket) => (data) => {
      try {
        socket.send(data);
      } catch {
        // The socket is closing; its close event follows.
      }
    };
    this.onMessage = sendTo(other);
    this.onClose = (event) => propagateClose(other, event);
    const sendToClient = sendTo(this.socket);
    other.binaryType = 'arraybuffer';
    other.addEventListener('message', (event) => sendToClient(event.data));
    other.addEventListener('close', (event) => propagateClose(this.socket, event));
    other.accept();
    for (const data of [first, ...this.queue.splice(0)]) this.onMessage(data);
    if (this.closed) this.onClose({ code: 1006 });
  }
}
