// Event streams (SSE). What clients have not read is in the memory of the isolate, so the streams of all namespaces share a budget.

import { encodeUtf8 } from './glue.js';

/** The largest chunk in bytes. The runtime holds a chunk until the client has read it, even if the stream has failed. */
const MAX_CHUNK_BYTES = 64 * 1024;

/** The streams of the isolate. The platform may end a request without a call: its stream stays until it is the largest. */
const streams = new Set();

/** The unread bytes of all streams. */
let totalBytes = 0;

function largestStream() {
  const totals = new Map();
  for (const { namespace, unreadBytes } of streams) totals.set(namespace, (totals.get(namespace) ?? 0) + unreadBytes);
  const most = Math.max(...totals.values());
  let largest;
  for (const stream of streams) {
    const isLarger = largest === undefined || stream.unreadBytes > largest.unreadBytes;
    if (isLarger && totals.get(stream.namespace) === most) largest = stream;
  }
  return largest;
}

/** The messages of a socket that the client of a stream has not read. */
class EventStream {
  /** Encoded messages, the oldest first. */
  #queue = [];
  /** How many bytes of the first message were sent: its memory is freed when all of it was sent. */
  #sentBytes = 0;
  #queuedBytes = 0;
  #isClientWaiting = false;
  #isSocketClosed = false;
  #hasFailed = false;
  #controller;
  #socket;
  /** The bytes of the queue, and of the chunk that the client has not read. */
  unreadBytes = 0;

  constructor(socket, namespace) {
    this.#socket = socket;
    this.namespace = namespace;
    streams.add(this);
  }

  start(controller) {
    this.#controller = controller;
  }

  /** Called when the client has read the last chunk. */
  pull() {
    this.#resize(this.#queuedBytes, 0);
    if (this.#hasFailed) this.#end();
    else if (this.#queue.length > 0) this.#send();
    else if (this.#isSocketClosed) this.#close();
    else this.#isClientWaiting = true;
  }

  /** Called when the client is gone. */
  cancel() {
    this.fail();
    this.#closeSocket();
  }

  /** Handles a message of the socket. */
  receive(text, maxTotal, maxUnreadDeltas) {
    const bytes = encodeUtf8(text);
    // An event with an id begins with the line `id:`.
    if (this.unreadBytes + bytes.length > maxUnreadDeltas && text.startsWith('data:')) return;
    while (totalBytes > 0 && totalBytes + bytes.length > maxTotal) largestStream().fail();
    if (this.#hasFailed) return this.#end();
    this.#queue.push(bytes);
    this.#resize(this.#queuedBytes + bytes.length, this.unreadBytes - this.#queuedBytes);
    if (this.#isClientWaiting) this.#send();
  }

  /** Handles the close of the socket. */
  finish() {
    this.#isSocketClosed = true;
    if (this.#isClientWaiting) this.#close();
  }

  /**
   * Drops what is unread. The client reconnects and resumes after its last event. The stream ends at the next message, which is a
   * heartbeat at the latest, or when the client reads: the runtime allows I/O only in the events of the stream's own request.
   */
  fail() {
    this.#hasFailed = true;
    this.#isClientWaiting = false;
    this.#release();
  }

  #send() {
    this.#isClientWaiting = false;
    const chunk = this.#takeChunk();
    this.#resize(this.#queuedBytes, chunk.length);
    this.#controller.enqueue(chunk);
  }

  /** Returns as many messages as fit, or the next part of a message that does not fit. */
  #takeChunk() {
    const queue = this.#queue;
    let [count, bytes] = [0, 0];
    while (count < queue.length && bytes + queue[count].length <= MAX_CHUNK_BYTES) bytes += queue[count++].length;
    if (count === 0) return this.#takePart(queue[0]);
    this.#queuedBytes -= bytes;
    const messages = queue.splice(0, count);
    if (count === 1) return messages[0];
    const chunk = new Uint8Array(bytes);
    let offset = 0;
    for (const message of messages) {
      chunk.set(message, offset);
      offset += message.length;
    }
    return chunk;
  }

  #takePart(message) {
    const part = message.slice(this.#sentBytes, this.#sentBytes + MAX_CHUNK_BYTES);
    this.#sentBytes += part.length;
    if (this.#sentBytes === message.length) {
      this.#queue.shift();
      this.#queuedBytes -= message.length;
      this.#sentBytes = 0;
    }
    return part;
  }

  #resize(queuedBytes, chunkBytes) {
    totalBytes += queuedBytes + chunkBytes - this.unreadBytes;
    this.#queuedBytes = queuedBytes;
    this.unreadBytes = queuedBytes + chunkBytes;
  }

  #release() {
    this.#queue = [];
    this.#resize(0, 0);
    streams.delete(this);
  }

  #close() {
    this.#release();
    this.#controller.close();
  }

  #end() {
    this.#controller.error(new Error('The client does not read'));
    this.#closeSocket();
  }

  #closeSocket() {
    try {
      this.#socket.close(1001, 'Client is gone');
    } catch {
      // It is already closed.
    }
  }
}

/**
 * Streams the messages of a socket, which are SSE text. Closes the socket when the client is gone. A client reads a chunk when the
 * stream is asked for the next one: a queue within the stream would count less than the runtime holds.
 * @param {number} maxTotal the unread bytes of all streams of the isolate. Beyond them, the largest stream of the namespace with the
 *   most unread bytes ends
 * @param {number} maxUnreadDeltas unread bytes of this stream above which events without an id are dropped: the client may miss them
 */
export function eventStream(socket, namespace, maxTotal, maxUnreadDeltas) {
  const source = new EventStream(socket, namespace);
  socket.addEventListener('message', ({ data }) => source.receive(data, maxTotal, maxUnreadDeltas));
  socket.addEventListener('close', () => source.finish());
  const stream = new ReadableStream(source, { highWaterMark: 0 });
  socket.accept();
  return stream;
}
