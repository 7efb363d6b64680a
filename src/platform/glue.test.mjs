/** Tests of the JavaScript functions of the worker for sockets, the database, and requests to other services. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { encodeUtf8, Inbox, sendPost, smallText } from './glue.js';

/** A fake WebSocket. */
class Socket extends EventTarget {
  sent = [];
  closedWith = null;
  binaryType = 'blob';

  accept() {
    this.accepted = true;
  }

  send(data) {
    if (this.closedWith) throw new Error('closed');
    this.sent.push(data);
  }

  close(code, reason) {
    if (this.closedWith) throw new Error('closed');
    this.closedWith = { code, reason };
  }

  /** Simulates a message from the peer. */
  receive(data) {
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }

  /** Simulates a close event. */
  disconnect(code, reason = '') {
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason }));
  }
}

function openInbox(maxFrame = 1_000) {
  const socket = new Socket();
  return { socket, inbox: new Inbox(socket, maxFrame, 'too large') };
}

describe('an inbox', () => {
  test('returns text and binary messages in order', async () => {
    const { socket, inbox } = openInbox();
    const bytes = new ArrayBuffer(3);
    const first = inbox.next(10_000);
    for (const data of ['a', bytes, 'b']) socket.receive(data);
    assert.deepEqual([await first, await inbox.next(10_000), await inbox.next(10_000)], ['a', bytes, 'b']);
    assert.equal(await inbox.next(0), undefined);
    assert.deepEqual([socket.binaryType, inbox.closed], ['arraybuffer', false]);
  });

  for (const large of ['x'.repeat(1_001), new ArrayBuffer(1_001)]) {
    test(`closes the socket after a frame above the limit (${large.constructor.name})`, async () => {
      const { socket, inbox } = openInbox();
      const next = inbox.next(10_000);
      socket.receive(large);
      assert.equal(await next, undefined);
      assert.equal(inbox.closed, true);
      assert.deepEqual(socket.closedWith, { code: 1009, reason: 'too large' });
      socket.receive('more');
      assert.equal(await inbox.next(10_000), undefined);
    });
  }

  for (const [what, frames] of Object.entries({ frames: Array(257).fill(''), bytes: Array(132).fill('x'.repeat(2_000)) })) {
    test(`closes the socket when the queue is full: ${what}`, () => {
      const { socket, inbox } = openInbox(2_000);
      frames.slice(1).forEach((frame) => socket.receive(frame));
      assert.equal(inbox.closed, false);
      socket.receive(frames[0]);
      assert.deepEqual([inbox.closed, socket.closedWith.code, inbox.queue], [true, 1008, []]);
    });
  }

  test('has no limit on the total size of the messages that were taken from it', async () => {
    const { socket, inbox } = openInbox();
    for (let frame = 0; frame < 1_000; frame += 1) {
      socket.receive('x'.repeat(1_000));
      assert.equal((await inbox.next(10_000)).length, 1_000);
    }
    assert.equal(inbox.closed, false);
  });

  test('ends a waiting `next`, and closes its side of the socket, when the client disconnects', async () => {
    for (const [code, reply] of [
      [1000, 1000],
      [1005, 1001],
      [1006, 1001],
    ]) {
      const { socket, inbox } = openInbox();
      const next = inbox.next(10_000);
      socket.disconnect(code);
      assert.equal(await next, undefined);
      assert.deepEqual([inbox.closed, socket.closedWith.code], [true, reply]);
    }
    const { socket, inbox } = openInbox();
    socket.dispatchEvent(new Event('error'));
    assert.deepEqual([inbox.closed, socket.closedWith.code], [true, 1001]);
  });
});

describe('a piped inbox', () => {
  function openPipe() {
    const { socket, inbox } = openInbox();
    const object = new Socket();
    socket.receive('second');
    inbox.pipe('first', object);
    return { socket, inbox, object };
  }

  test('sends its queue first, then frames of any size in both directions', () => {
    const { socket, object } = openPipe();
    const bytes = new ArrayBuffer(5_000);
    socket.receive('x'.repeat(5_000));
    socket.receive(bytes);
    assert.deepEqual(object.sent, ['first', 'second', 'x'.repeat(5_000), bytes]);
    object.receive('reply');
    object.receive(bytes);
    assert.deepEqual(socket.sent, ['reply', bytes]);
    assert.deepEqual([object.accepted, object.binaryType, socket.closedWith, object.closedWith], [true, 'arraybuffer', null, null]);
  });

  test('propagates a close in both directions', () => {
    const first = openPipe();
    first.object.disconnect(1008, 'no');
    assert.deepEqual(first.socket.closedWith, { code: 1008, reason: 'no' });
    const other = openPipe();
    other.socket.disconnect(1006);
    assert.equal(other.object.closedWith.code, 1001);
    assert.equal(other.socket.closedWith.code, 1001);
    // Sending to a closed socket is ignored.
    other.object.receive('late');
    other.socket.receive('late');
  });

  test('closes the other socket when the client has disconnected before the pipe', () => {
    const { socket, inbox } = openInbox();
    socket.disconnect(1006);
    const object = new Socket();
    inbox.pipe('first', object);
    assert.equal(object.closedWith.code, 1001);
  });
});

/** Sends a push to a fake service; also returns the received requests. */
async function postPush(t, respond) {
  const requests = [];
  t.mock.method(globalThis, 'fetch', (url, init) => {
    requests.push({ url, ...init });
    return respond(init);
  });
  const body = new Uint8Array([1, 2, 3]);
  return { requests, body, result: sendPost('https://push.example/1', 'TTL\n60\nTopic\nt', body, 10_000) };
}

/** A push service that never responds. */
const noResponse = ({ signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

describe('a push', () => {
  test('copies the body, follows no redirect, and does not read the response', async (t) => {
    let cancelled = false;
    const stream = new ReadableStream({ cancel: () => void (cancelled = true) });
    const { requests, body, result } = await postPush(
      t,
      async () => new Response(stream, { status: 429, headers: { 'retry-after': '7' } }),
    );
    body.fill(0);
    assert.equal(await result, '429\n7');
    const [{ url, method, headers, redirect, body: sent }] = requests;
    assert.deepEqual([url, method, redirect], ['https://push.example/1', 'POST', 'manual']);
    assert.deepEqual(headers, [
      ['TTL', '60'],
      ['Topic', 't'],
    ]);
    assert.deepEqual([...sent], [1, 2, 3], 'the view of wasm memory is invalid after the call');
    assert.equal(cancelled, true);
  });

  test('times out', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { requests, result } = await postPush(t, noResponse);
    t.mock.timers.tick(9_999);
    assert.equal(requests[0].signal.aborted, false);
    t.mock.timers.tick(1);
    assert.equal(await result, 'The push service did not answer in time.');
  });

  test('clears its timer, which would keep the object awake', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (const respond of [async () => new Response(null, { status: 201 }), async () => Promise.reject(new TypeError('refused'))]) {
      const { requests, result } = await postPush(t, respond);
      await result;
      t.mock.timers.tick(60_000);
      assert.equal(requests[0].signal.aborted, false);
      t.mock.restoreAll();
    }
  });

  test('to an unreachable service has an error message without details', async (t) => {
    const { result } = await postPush(t, async () => Promise.reject(new TypeError('getaddrinfo ENOTFOUND secret.example')));
    assert.equal(await result, 'The push service could not be reached.');
  });

  test('that succeeds has a status and no Retry-After, even if the body of the response cannot be cancelled', async (t) => {
    for (const cancel of [() => new Promise(() => {}), () => Promise.reject(new Error('failed'))]) {
      const { result } = await postPush(t, async () => new Response(new ReadableStream({ cancel }), { status: 201 }));
      assert.equal(await result, '201\n');
      t.mock.restoreAll();
    }
  });
});

describe('a frame', () => {
  const largest = 'ü'.repeat(16 * 1024);
  test('that is small is returned as text', () => {
    assert.equal(smallText(largest, 16 * 1024), largest);
    assert.equal(smallText('', 16 * 1024), '');
    assert.equal(smallText(`${largest}x`, 16 * 1024), undefined);
    assert.equal(smallText(new ArrayBuffer(3), 16 * 1024), undefined);
  });

  test('that is large is encoded as UTF-8', () => {
    assert.deepEqual(Buffer.from(encodeUtf8('aü😀')), Buffer.from('aü😀'));
  });
});
