/** What waits between a client that has not shown a token and its object, and how the two are joined. */

import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { Inbox, answer, answerInParts, body, carry, inTime, post, smallText, utf8 } from './glue.js';

/** A WebSocket as far as the inbox can tell. */
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

  /** The other end sends this. */
  hear(data) {
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }

  /** The other end closes, or is cut off. */
  lose(code, reason = '') {
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason }));
  }
}

function waiting(largest = 1_000) {
  const socket = new Socket();
  return { socket, inbox: new Inbox(socket, largest, 'too large') };
}

describe('a client that waits', () => {
  test('is heard in the order in which it spoke, text and bytes alike', async () => {
    const { socket, inbox } = waiting();
    const bytes = new ArrayBuffer(3);
    const first = inbox.next(10_000);
    for (const data of ['a', bytes, 'b']) socket.hear(data);
    assert.deepEqual([await first, await inbox.next(10_000), await inbox.next(10_000)], ['a', bytes, 'b']);
    assert.equal(await inbox.next(0), undefined);
    assert.deepEqual([socket.binaryType, inbox.closed], ['arraybuffer', false]);
  });

  for (const large of ['x'.repeat(1_001), new ArrayBuffer(1_001)]) {
    test(`is closed unheard with a frame that is too large (${large.constructor.name})`, async () => {
      const { socket, inbox } = waiting();
      const next = inbox.next(10_000);
      socket.hear(large);
      assert.equal(await next, undefined);
      assert.equal(inbox.closed, true);
      assert.deepEqual(socket.closedWith, { code: 1009, reason: 'too large' });
      socket.hear('more');
      assert.equal(await inbox.next(10_000), undefined);
    });
  }

  for (const [what, frames] of Object.entries({ 'many frames': Array(257).fill(''), 'large ones': Array(132).fill('x'.repeat(2_000)) })) {
    test(`is closed when too much waits: ${what}`, () => {
      const { socket, inbox } = waiting(2_000);
      frames.slice(1).forEach((frame) => socket.hear(frame));
      assert.equal(inbox.closed, false);
      socket.hear(frames[0]);
      assert.deepEqual([inbox.closed, socket.closedWith.code, inbox.waiting], [true, 1008, []]);
    });
  }

  test('may say as much as it likes as long as it is heard', async () => {
    const { socket, inbox } = waiting();
    for (let frame = 0; frame < 1_000; frame += 1) {
      socket.hear('x'.repeat(1_000));
      assert.equal((await inbox.next(10_000)).length, 1_000);
    }
    assert.equal(inbox.closed, false);
  });

  test('that leaves ends the wait, and its side is closed as well', async () => {
    for (const [code, answer] of [[1000, 1000], [1005, 1001], [1006, 1001]]) {
      const { socket, inbox } = waiting();
      const next = inbox.next(10_000);
      socket.lose(code);
      assert.equal(await next, undefined);
      assert.deepEqual([inbox.closed, socket.closedWith.code], [true, answer]);
    }
    const { socket, inbox } = waiting();
    socket.dispatchEvent(new Event('error'));
    assert.deepEqual([inbox.closed, socket.closedWith.code], [true, 1001]);
  });
});

describe('a client that is joined with its object', () => {
  function joined() {
    const { socket, inbox } = waiting();
    const object = new Socket();
    socket.hear('second');
    inbox.join('first', object);
    return { socket, inbox, object };
  }

  test('says what it said already, and from then on anything of any size', () => {
    const { socket, object } = joined();
    const bytes = new ArrayBuffer(5_000);
    socket.hear('x'.repeat(5_000));
    socket.hear(bytes);
    assert.deepEqual(object.sent, ['first', 'second', 'x'.repeat(5_000), bytes]);
    object.hear('answer');
    object.hear(bytes);
    assert.deepEqual(socket.sent, ['answer', bytes]);
    assert.deepEqual([object.accepted, object.binaryType, socket.closedWith, object.closedWith], [true, 'arraybuffer', null, null]);
  });

  test('is closed as its object closes, and the object as it leaves', () => {
    const one = joined();
    one.object.lose(1008, 'no');
    assert.deepEqual(one.socket.closedWith, { code: 1008, reason: 'no' });
    const other = joined();
    other.socket.lose(1006);
    assert.equal(other.object.closedWith.code, 1001);
    assert.equal(other.socket.closedWith.code, 1001);
    // What still comes meets closed sockets, and nothing happens.
    other.object.hear('late');
    other.socket.hear('late');
  });

  test('and had left by then leaves no object behind', () => {
    const { socket, inbox } = waiting();
    socket.lose(1006);
    const object = new Socket();
    inbox.join('first', object);
    assert.equal(object.closedWith.code, 1001);
  });
});

describe('an answer of D1', () => {
  test('is waited for no longer than 35 s', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const late = assert.rejects(inTime(new Promise(() => {})), /D1 did not answer in time/);
    mock.timers.tick(35_000);
    await late;
    const broken = new Error('D1_ERROR: Network connection lost');
    await assert.rejects(inTime(Promise.reject(broken)), broken);
    assert.equal(await inTime(Promise.resolve('rows')), 'rows');
    mock.timers.reset();
  });
});

/** Posts a push to a service that answers so; also what it was asked. */
async function posted(t, answer) {
  const asked = [];
  t.mock.method(globalThis, 'fetch', (url, init) => {
    asked.push({ url, ...init });
    return answer(init);
  });
  const body = new Uint8Array([1, 2, 3]);
  return { asked, body, said: post('https://push.example/1', 'TTL\n60\nTopic\nt', body, 10_000) };
}

/** A push service that never answers, until its caller gives up. */
const silence = ({ signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

describe('a push', () => {
  test('is posted with its headers, follows no redirect, and keeps nothing of the body', async (t) => {
    let cancelled = false;
    const stream = new ReadableStream({ cancel: () => void (cancelled = true) });
    const { asked, body, said } = await posted(t, async () => new Response(stream, { status: 429, headers: { 'retry-after': '7' } }));
    body.fill(0);
    assert.equal(await said, '429\n7');
    const [{ url, method, headers, redirect, body: sent }] = asked;
    assert.deepEqual([url, method, redirect], ['https://push.example/1', 'POST', 'manual']);
    assert.deepEqual(headers, [['TTL', '60'], ['Topic', 't']]);
    assert.deepEqual([...sent], [1, 2, 3], 'a view into wasm memory changes under its reader');
    assert.equal(cancelled, true, 'what it says besides is not read');
  });

  test('that was taken has a status and no pause', async (t) => {
    assert.equal(await (await posted(t, async () => new Response(null, { status: 201 }))).said, '201\n');
  });

  test('is given up after its time, and not before', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { asked, said } = await posted(t, silence);
    t.mock.timers.tick(9_999);
    assert.equal(asked[0].signal.aborted, false);
    t.mock.timers.tick(1);
    assert.equal(await said, 'The push service did not answer in time.');
  });

  test('leaves no timer behind that would keep the object awake', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (const answer of [async () => new Response(null, { status: 201 }), async () => Promise.reject(new TypeError('refused'))]) {
      const { asked, said } = await posted(t, answer);
      await said;
      t.mock.timers.tick(60_000);
      assert.equal(asked[0].signal.aborted, false);
      t.mock.restoreAll();
    }
  });

  test('whose service cannot be reached says so', async (t) => {
    const { said } = await posted(t, async () => Promise.reject(new TypeError('getaddrinfo ENOTFOUND secret.example')));
    assert.equal(await said, 'The push service could not be reached.');
  });

  test('was taken even when the rest of the answer cannot be put away', async (t) => {
    for (const cancel of [() => new Promise(() => {}), () => Promise.reject(new Error('broken'))]) {
      const { said } = await posted(t, async () => new Response(new ReadableStream({ cancel }), { status: 201 }));
      assert.equal(await said, '201\n');
      t.mock.restoreAll();
    }
  });
});

describe('a frame', () => {
  const most = 'ü'.repeat(16 * 1024);
  test('is brought in as a text as long as it is small', () => {
    assert.equal(smallText(most), most);
    assert.equal(smallText(''), '');
    assert.equal(smallText(`${most}x`), undefined);
    assert.equal(smallText(new ArrayBuffer(3)), undefined);
  });

  test('that is not small comes as bytes', () => {
    assert.deepEqual(Buffer.from(utf8('aü😀')), Buffer.from('aü😀'));
  });
});

describe('a request to an object', () => {
  const request = new Request('http://hub/api/sessions', {
    method: 'POST',
    body: '{}',
    headers: { 'content-length': '2', 'hub-namespace': 'forged', 'hub-socket': 'web', 'hub-expires-at': '1', 'last-event-id': '7' },
  });

  /** A binding whose objects answer so; what they were asked is `asked`. */
  function binding(answered) {
    const asked = [];
    const fetch = (_, { headers }) => {
      asked.push(Object.fromEntries(new Headers(headers)));
      return answered;
    };
    return { asked, idFromName: (name) => name, get: () => ({ fetch }) };
  }

  test('carries the namespace and the length of its body, and no other header of its client', async () => {
    const objects = binding(Promise.resolve('answer'));
    assert.equal(await carry(objects, 'team', '', '', request, 1_000), 'answer');
    const bare = new Request('http://hub/api/sessions', { headers: request.headers });
    bare.headers.delete('content-length');
    await carry(objects, 'team', '', '', bare, 1_000);
    assert.deepEqual(objects.asked, [{ 'hub-namespace': 'team', 'content-length': '2' }, { 'hub-namespace': 'team' }]);
  });

  test('for a socket says what the socket is for, whatever its client said', async () => {
    const objects = binding(Promise.resolve('answer'));
    await carry(objects, 'team', 'cli', '', request, 1_000);
    const { 'last-event-id': last, upgrade, ...hubs } = objects.asked[0];
    assert.deepEqual([last, upgrade], ['7', 'websocket']);
    assert.equal([hubs['hub-namespace'], hubs['hub-socket'], hubs['hub-expires-at']].join(), 'team,cli,');
  });

  test('is waited for no longer than its limit, and fails as the object does', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const late = carry(binding(new Promise(() => {})), 'team', '', '', request, 1_000);
    mock.timers.tick(1_000);
    assert.equal(await late, undefined);
    mock.timers.reset();
    const broken = new Error('the object is gone');
    await assert.rejects(carry(binding(Promise.reject(broken)), 'team', '', '', request, 1_000), broken);
  });
});

/** A request whose body comes as the pieces of `sent` come; `told` is its length. As far as `body` reads of it. */
function sending(sent, told) {
  const rooms = [];
  let rest = new Uint8Array(0);
  const readAtLeast = async (least, room) => {
    rooms.push(room.length);
    while (rest.length < least) {
      const { value, done } = await sent.next();
      if (done) break;
      rest = Buffer.concat([rest, value]);
    }
    // As a real reader does it: the room goes out of the caller's hands.
    const { byteOffset, length } = room;
    const view = new Uint8Array(room.buffer.transfer(), byteOffset, Math.min(rest.length, length));
    view.set(rest.subarray(0, view.length));
    rest = rest.subarray(view.length);
    return { value: view, done: view.length === 0 };
  };
  const reader = { readAtLeast, cancel: async () => sent.return() };
  const headers = new Headers(told === undefined ? {} : { 'content-length': String(told) });
  return { rooms, request: { headers, body: { getReader: () => reader } } };
}

/** Pieces of a body, and then nothing more until the body is given up. */
function standingStill(...pieces) {
  const { promise, resolve } = Promise.withResolvers();
  return {
    next: async () => (pieces.length > 0 ? { value: pieces.shift() } : promise),
    return: () => resolve({ done: true }),
  };
}

describe('the body of a request', () => {
  const KIB = 1024;
  const LIMIT = 8 * KIB * KIB;

  test('is whole, however it comes and whether or not its length was told', async () => {
    for (const length of [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 128 * KIB, 1_000_000]) {
      const bytes = new Uint8Array(length).map((_, at) => at);
      for (const told of [undefined, length]) {
        const pieces = [bytes.subarray(0, length / 3), bytes.subarray(length / 3)];
        const { request } = sending(pieces.values(), told);
        assert.deepEqual(await body(request, LIMIT), bytes, `${length} bytes of ${told}`);
      }
    }
  });

  test('takes memory as it comes, and not as it says it will', async () => {
    const { promise, resolve } = Promise.withResolvers();
    const sent = { next: () => promise, return: () => {} };
    const { rooms, request } = sending(sent, LIMIT);
    const read = body(request, LIMIT);
    resolve({ done: true });
    assert.deepEqual([(await read).length, rooms], [0, [64 * KIB]]);
  });

  test('is refused when it is longer than its limit, or than it said', async () => {
    assert.equal(await body(sending([].values(), LIMIT + 1).request, LIMIT), 'too-large');
    assert.equal(await body(sending([new Uint8Array(LIMIT + 1)].values()).request, LIMIT), 'too-large');
    assert.equal(await body(sending([new Uint8Array(100)].values(), 99).request, LIMIT), 'too-large');
  });

  test('is given up when its client stands still, and counts as broken when it goes away', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (const told of [undefined, LIMIT]) {
      const stalled = body(sending(standingStill(new Uint8Array(10)), told).request, LIMIT);
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(15_000);
      assert.equal(await stalled, 'stalled');
    }
    const gone = { next: async () => Promise.reject(new Error('Network connection lost.')) };
    assert.equal(await body(sending(gone, 10).request, LIMIT), 'broken');
  });
});

/** As far as it goes, the runtime's own stream. */
globalThis.IdentityTransformStream = TransformStream;

/** A large answer of some parts; tells how many were taken, whether the rest was dropped, and when it is over. */
function inParts(parts) {
  const seen = { taken: 0, dropped: false };
  const part = (more) => {
    if (!more) seen.dropped = true;
    return more && seen.taken < parts ? new Uint8Array([seen.taken++]) : undefined;
  };
  let over;
  const response = answerInParts(200, '', part, { waitUntil: (work) => (over = work) });
  return { seen, response, over };
}

describe('a large answer', () => {
  test('leaves part by part, as its client reads', async () => {
    const { seen, response, over } = inParts(20);
    assert.ok(seen.taken < 3, `${seen.taken} were taken unread`);
    assert.equal((await response.arrayBuffer()).byteLength, 20);
    await over;
    assert.deepEqual(seen, { taken: 20, dropped: false });
  });

  test('is dropped when its client is gone', async () => {
    const { seen, response, over } = inParts(20);
    await response.body.cancel();
    await over;
    assert.equal(seen.dropped, true);
  });

  test('breaks off when its client does not read', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { seen, response, over } = inParts(20);
    const reader = response.body.getReader();
    await reader.read();
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(59_999);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(seen.dropped, false);
    t.mock.timers.tick(1);
    await over;
    assert.equal(seen.dropped, true);
    await assert.rejects(async () => {
      while (!(await reader.read()).done);
    }, /does not read/);
  });
});

describe('an answer', () => {
  test('has the headers it was given, whatever the one before had', async () => {
    const json = 'content-type\napplication/json\n';
    const busy = `${json}retry-after\n1\n`;
    for (const headers of [json, busy, json, json, '']) {
      const given = answer(200, headers, new TextEncoder().encode('{}'));
      assert.equal([...given.headers].flat().map((part) => `${part}\n`).join(''), headers);
      assert.equal(await given.text(), '{}');
    }
    assert.equal(answer(204, '', new Uint8Array(0)).body, null);
  });
});
