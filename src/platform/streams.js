// Event streams (SSE). The unread bytes are in the memory of the isolate, so the streams of all namespaces share one limit.

import { encodeUtf8 } from './glue.js';

/** The largest chunk in bytes. Outside of the budget, the runtime holds a chunk of each stream until the client has read it. */
const MAX_CHUNK_BYTES = 64 * 1024;

/** The namespaces that have streams, by their names. */
const namespaces = new Map();

/** The unread bytes of all namespaces. */
let totalBytes = 0;

/** The streams of a namespace. The platform may end a request without `cancel`: its stream then stays until it is dropped as the largest. */
class NamespaceStreams {
  streams = new Set();
  /** The bytes of all messages in queues. A message in several queues counts once. */
  unreadBytes = 0;
  #latest;

  /** Encodes a message. All streams receive an event one after another and with the same text, so they share its bytes. */
  encode(text) {
    if (this.#latest?.text !== text) this.#latest = { text, bytes: encodeUtf8(text), queues: 0 };
    return this.#latest;
  }

  addToQueue(message) {
    if (message.queues === 0) this.#resize(message.bytes.length);
    message.queues += 1;
  }

  removeFromQueue(message) {
    message.queues -= 1;
    if (message.queues > 0) return;
    this.#resize(-message.bytes.length);
    if (this.#latest === message) this.#latest = undefined;
  }

  #resize(bytes) {
    this.unreadBytes += bytes;
    totalBytes += bytes;
  }
}

const withMostUnreadBytes = (list) => list.reduce((most, next) => (next.unreadBytes > most.unreadBytes ? next : most));

/** The messages of a socket that the client of a stream has not read. */
class EventStream {
  /** The messages that were not sent completely, the oldest first. */
  #queue = [];
  /** The number of bytes of the first message that were sent. */
  #sentBytes = 0;
  #isClientWaiting = false;
  #isSocketClosed = false;
  #hasFailed = false;
  #controller;
  #socket;
  #name;
  #namespace;
  /** The bytes of the queue. */
  unreadBytes = 0;

  constructor(socket, name) {
    this.#socket = socket;
    this.#name = name;
    this.#namespace = namespaces.get(name) ?? new NamespaceStreams();
    this.#namespace.streams.add(this);
    namespaces.set(name, this.#namespace);
  }

  start(controller) {
    this.#controller = controller;
  }

  /** Called when the client has read the last chunk. */
  pull() {
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
    if (this.#hasFailed) return this.#end();
    const message = this.#namespace.encode(text);
    const { length } = message.bytes;
    if (this.#isClientWaiting && length <= MAX_CHUNK_BYTES) {
      this.#isClientWaiting = false;
      return this.#controller.enqueue(message.bytes);
    }
    // An event with an id begins with the line `id:`.
    if (this.unreadBytes + length > maxUnreadDeltas && text.startsWith('data:')) return;
    while (message.queues === 0 && totalBytes > 0 && totalBytes + length > maxTotal) {
      withMostUnreadBytes([...withMostUnreadBytes([...namespaces.values()]).streams]).fail();
    }
    if (this.#hasFailed) return this.#end();
    this.#queue.push(message);
    this.#namespace.addToQueue(message);
    this.unreadBytes += length;
    if (this.#isClientWaiting) this.#send();
  }

  /** Handles the close of the socket. */
  finish() {
    this.#isSocketClosed = true;
    if (this.#isClientWaiting) this.#close();
  }

  /**
   * Drops the unread messages. The client reconnects and resumes after its last event. The stream ends when the client reads, or
   * at the next message, a heartbeat at the latest: the runtime allows I/O only in the events of the stream's request.
   */
  fail() {
    this.#hasFailed = true;
    this.#isClientWaiting = false;
    this.#release();
  }

  #send() {
    this.#isClientWaiting = false;
    this.#controller.enqueue(this.#takeChunk());
  }

  /** Returns as many messages as fit, or the next part of a message that does not fit. */
  #takeChunk() {
    const queue = this.#queue;
    let [count, length] = [0, 0];
    while (count < queue.length && length + queue[count].bytes.length <= MAX_CHUNK_BYTES) length += queue[count++].bytes.length;
    if (count === 0) return this.#takePart(queue[0]);
    const messages = this.#remove(count);
    if (count === 1) return messages[0].bytes;
    const chunk = new Uint8Array(length);
    let offset = 0;
    for (const { bytes } of messages) {
      chunk.set(bytes, offset);
      offset += bytes.length;
    }
    return chunk;
  }

  #takePart({ bytes }) {
    const part = bytes.slice(this.#sentBytes, this.#sentBytes + MAX_CHUNK_BYTES);
    this.#sentBytes += part.length;
    if (this.#sentBytes === bytes.length) {
      this.#remove(1);
      this.#sentBytes = 0;
    }
    return part;
  }

  /** Removes the first messages of the queue. */
  #remove(count) {
    const messages = this.#queue.splice(0, count);
    for (const message of messages) {
      this.#namespace.removeFromQueue(message);
      this.unreadBytes -= message.bytes.length;
    }
    return messages;
  }

  #release() {
    this.#remove(this.#queue.length);
    const { streams } = this.#namespace;
    streams.delete(this);
    if (streams.size === 0 && namespaces.get(this.#name) === this.#namespace) namespaces.delete(this.#name);
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
      // The socket is already closed.
    }
  }
}

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-accel-buffering': 'no',
};

/**
 * Responds with a stream of the messages of a socket, which are SSE text. Closes the socket when the client is gone. The `ReadableStream` has no
 * queue of its own, because a message in such a queue would count as read.
 * @param {number} maxTotal the unread bytes of all streams of the isolate. Beyond this limit, the largest stream of the namespace
 *   with the most unread bytes ends
 * @param {number} maxUnreadDeltas the unread bytes of this stream beyond which events without an id, which it may miss, are dropped
 */
export function eventStream(socket, namespace, maxTotal, maxUnreadDeltas) {
  const source = new EventStream(socket, namespace);
  socket.addEventListener('message', ({ data }) => source.receive(data, maxTotal, maxUnreadDeltas));
  socket.addEventListener('close', () => source.finish());
  const stream = new ReadableStream(source, { highWaterMark: 0 });
  socket.accept();
  return new Response(stream, { headers: HEADERS });
}
