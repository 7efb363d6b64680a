/** Tests of event streams: which events a client receives, and which stream ends when clients do not read. */

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { eventStream } from './streams.js';

const KIB = 1024;
const MAX_TOTAL = 1024 * KIB;
const MAX_UNREAD_DELTAS = 256 * KIB;

/** The streams of a test. Their clients leave after the test, because all tests share the limit on unread bytes. */
const opened = [];
afterEach(() => Promise.all(opened.splice(0).map(({ leave }) => leave())));

/** Opens a stream whose client reads only when the test calls `read`. */
function openStream(namespace = 'team') {
  const listeners = {};
  const socket = {
    isClosed: false,
    addEventListener: (type, listener) => (listeners[type] = listener),
    accept() {},
    close() {
      if (this.isClosed) throw new Error('closed');
      this.isClosed = true;
    },
  };
  const reader = eventStream(socket, namespace, MAX_TOTAL, MAX_UNREAD_DELTAS).body.getReader();
  const decoder = new TextDecoder();
  /** Reads until the text ends with `end`. */
  const readUntil = async (end) => {
    let text = '';
    while (!text.endsWith(end)) {
      const { value, done } = await reader.read();
      if (done) throw new Error('The stream has ended');
      text += decoder.decode(value, { stream: true });
    }
    return text;
  };
  const stream = {
    socket,
    reader,
    readUntil,
    receive: (data) => void listeners.message({ data }),
    endSocket: () => listeners.close(),
    leave: () => reader.cancel().catch(() => {}),
  };
  opened.push(stream);
  return stream;
}

/** An event of this size, which ends with its number. */
function event(number, bytes = 100) {
  const [start, end] = ['id: 1\ndata: ', `${number}\n\n`];
  return start + 'x'.repeat(bytes - start.length - end.length) + end;
}

function delta(number, bytes) {
  return event(number, bytes + 6).slice(6);
}

describe('a stream of events', () => {
  test('sends events to a client that waits for them', async () => {
    const { readUntil, receive } = openStream();
    for (let number = 0; number < 5; number += 1) {
      const read = readUntil(`${number}\n\n`);
      receive(event(number));
      assert.equal(await read, event(number));
    }
  });

  test('sends events of any size in order to a client that reads late', async () => {
    const { readUntil, receive } = openStream();
    const sizes = [100, 64 * KIB, 64 * KIB + 1, 20, 200 * KIB, 30, 63 * KIB, 1024, 900, 128 * KIB];
    const events = sizes.map((bytes, number) => event(number, bytes));
    events.push('id: 1\ndata: 🦀ü\n\n'.padStart(70 * KIB, 'ü'), event('last'));
    for (const data of events) receive(data);
    assert.equal(await readUntil('last\n\n'), events.join(''));
  });

  test('drops deltas, but no other event, while its client does not read', async () => {
    const { socket, readUntil, receive } = openStream();
    const sent = [event(1, 200 * KIB), delta(2, 50 * KIB), delta(3, 10 * KIB), event(4, 60 * KIB), delta(5, 20)];
    for (const data of sent) receive(data);
    assert.equal(socket.isClosed, false);
    assert.equal(await readUntil('4\n\n'), [sent[0], sent[1], sent[3]].join(''));
    const read = readUntil('6\n\n');
    receive(delta(6, 50 * KIB));
    assert.equal(await read, delta(6, 50 * KIB));
  });

  test('closes its socket when its client is gone', async () => {
    const { socket, receive, endSocket, leave } = openStream();
    await leave();
    assert.equal(socket.isClosed, true);
    // The socket may have further messages until it is closed.
    receive(event(1));
    endSocket();
  });

  test('ends with its socket, after the last event', async () => {
    for (const isWaiting of [false, true]) {
      const { reader, readUntil, receive, endSocket } = openStream();
      receive(event(1, 100 * KIB));
      if (isWaiting) await readUntil('1\n\n');
      const last = isWaiting ? reader.read() : undefined;
      const text = isWaiting ? undefined : readUntil('1\n\n');
      endSocket();
      if (text) assert.equal(await text, event(1, 100 * KIB));
      assert.equal((await (last ?? reader.read())).done, true);
    }
  });
});

describe('the unread bytes of all streams', () => {
  test('are limited: the largest stream ends when there is no room for an event, and the others lose nothing', async () => {
    const [large, medium, small] = ['a', 'a', 'a'].map(openStream);
    for (let number = 0; number < 6; number += 1) large.receive(event(`large ${number}`, 100 * KIB));
    for (let number = 0; number < 4; number += 1) medium.receive(event(`medium ${number}`, 100 * KIB));
    for (let number = 0; number < 20; number += 1) small.receive(event(`small ${number}`));
    small.receive(event('last', 100 * KIB));
    // The stream ends when the client reads, or when the socket receives another message.
    await assert.rejects(large.readUntil('0\n\n'), /does not read/);
    assert.equal(large.socket.isClosed, true);
    assert.equal((await medium.readUntil('3\n\n')).length, 400 * KIB);
    assert.equal((await small.readUntil('last\n\n')).length, 20 * 100 + 100 * KIB);
    assert.deepEqual([medium.socket.isClosed, small.socket.isClosed], [false, false]);
  });

  test('end the stream of a client that never reads with the next message of its socket', () => {
    const { socket, receive } = openStream();
    for (let number = 0; number < 5; number += 1) receive(event(number, 200 * KIB));
    assert.equal(socket.isClosed, false);
    receive(event(5, 200 * KIB));
    assert.equal(socket.isClosed, true);
    const other = openStream();
    other.receive(event(6, 1_000 * KIB));
    receive(event(7, 100 * KIB));
    other.receive(event(8));
    assert.equal(other.socket.isClosed, false, 'a stream that has ended needs no room');
  });

  test('count an event only once if many streams of a namespace have it', async () => {
    const streams = Array.from({ length: 20 }, () => openStream());
    for (let number = 0; number < 9; number += 1) streams.forEach(({ receive }) => receive(event(number, 100 * KIB)));
    assert.ok(streams.every(({ socket }) => !socket.isClosed));
    const texts = await Promise.all(streams.map(({ readUntil }) => readUntil('8\n\n')));
    assert.ok(texts.every((text) => text === texts[0]) && texts[0].length === 900 * KIB);
    const other = openStream('other');
    other.receive(event('large', 1_000 * KIB));
    streams[0].receive(event('last', 100 * KIB));
    assert.equal(await streams[0].readUntil('last\n\n'), event('last', 100 * KIB));
    assert.equal(streams[0].socket.isClosed, false);
    assert.equal(other.socket.isClosed, false, 'all of it was read');
  });

  test('end a stream of the namespace with the most unread bytes, even if another namespace has a larger stream', async () => {
    const loud = Array.from({ length: 9 }, () => openStream('loud'));
    const phone = openStream('quiet');
    phone.receive(event('first', 200 * KIB));
    loud.forEach(({ receive }, number) => receive(event(number, 90 * KIB)));
    phone.receive(event('last', 300 * KIB));
    for (const { receive } of loud) receive(event('next'));
    assert.equal(loud.filter(({ socket }) => socket.isClosed).length, 4);
    assert.equal((await phone.readUntil('last\n\n')).length, 500 * KIB);
  });

  test('never end the stream of a client that waits for an event, however large the event is', async () => {
    const stalled = Array.from({ length: 10 }, () => openStream());
    stalled.forEach(({ receive }, number) => receive(event(number, 100 * KIB)));
    const { socket, readUntil, receive } = openStream();
    for (const bytes of [500 * KIB, MAX_TOTAL + 100 * KIB]) {
      const read = readUntil('last\n\n');
      receive(event('last', bytes));
      assert.equal((await read).length, bytes);
    }
    assert.equal(socket.isClosed, false);
  });

  test('include the whole event while a part of it is unread', async () => {
    const [first, second] = [openStream(), openStream()];
    first.receive(event(1, 1_000 * KIB));
    for (let chunk = 0; chunk < 10; chunk += 1) await first.reader.read();
    second.receive(event(2, 100 * KIB));
    await assert.rejects(first.readUntil('1\n\n'), /does not read/);
    assert.equal(await second.readUntil('2\n\n'), event(2, 100 * KIB));
  });

  test('do not include the bytes of a client that has read all or has left', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [reading, leaving] = [openStream(), openStream()];
      reading.receive(event(round, 400 * KIB));
      leaving.receive(event(round, 600 * KIB));
      await reading.readUntil(`${round}\n\n`);
      await leaving.leave();
      assert.equal(reading.socket.isClosed, false);
    }
  });
});
