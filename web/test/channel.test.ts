// The event channel: what it does when a connection opens, ends, or is silent.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { Channel, type ConnectionState, type Missed } from '../src/api/channel.ts';
import type { HubEvent } from '../src/api/types.ts';

/** Lets promises that are settled be noticed. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A connection that the test speaks through. */
class Wire {
  static all: Wire[] = [];
  static get last(): Wire {
    const last = Wire.all.at(-1);
    assert.ok(last, 'nothing was opened');
    return last;
  }
  url: URL;
  sent: string[] = [];
  isClosed = false;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string; lastEventId?: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(url: string) {
    this.url = new URL(url);
    Wire.all.push(this);
  }
  send(text: string) {
    this.sent.push(text);
  }
  close() {
    this.isClosed = true;
  }
  /** The hub says something. */
  says(event: object, id?: string) {
    this.onmessage?.(id === undefined ? { data: JSON.stringify(event) } : { data: JSON.stringify({ ...event, eventId: id }), lastEventId: id });
  }
  greets(resume: 'ok' | 'gap' = 'ok', id = 'e1') {
    this.onopen?.();
    this.says({ type: 'connection-changed', data: { status: 'connected', subscriptionId: `s${Wire.all.length}`, resume } }, id);
  }
}
class Socket extends Wire {}
class Stream extends Wire {}

function place() {
  const states: ConnectionState[] = [];
  const events: HubEvent[] = [];
  const connected: [string, Missed][] = [];
  const refused: (string | null)[] = [];
  const world = { isOnline: true, forgotten: 0, tokens: 0 };
  const channel = new Channel({
    token: async () => `jwt${(world.tokens += 1)}`,
    forgetToken: () => void (world.forgotten += 1),
    onEvent: (event) => events.push(event),
    onConnected: (id, missed) => connected.push([id, missed]),
    onState: (state) => states.push(state),
    onRefused: (id) => refused.push(id),
    isOnline: () => world.isOnline,
    visibility: () => 'visible',
    WebSocket: Socket as unknown as typeof WebSocket,
    EventSource: Stream as unknown as typeof EventSource,
    origin: 'http://hub.test',
  });
  return { channel, states, events, connected, refused, world };
}

/** Lets the wait before the next try pass. */
async function pass(ms: number) {
  mock.timers.tick(ms);
  await settle();
}

beforeEach(() => {
  Wire.all = [];
  mock.timers.enable({ apis: ['setTimeout'] });
});
afterEach(() => mock.timers.reset());

test('it opens a WebSocket with a JWT, hears events and answers heartbeats', async () => {
  const { channel, states, events, connected } = place();
  channel.start();
  await settle();
  const wire = Wire.last;
  assert.equal(wire.url.href, 'ws://hub.test/api/events?all=true&visibility=visible&token=jwt1');
  wire.greets();
  wire.says({ type: 'heartbeat' }, 'e2');
  assert.deepEqual([states, connected, events.map(({ type }) => type), wire.sent], [['connecting', 'live'], [['s1', 'anything']], ['heartbeat'], ['read']]);
  channel.stop();
});

test('after a break it comes back with the last event, and tells whether anything was missed', async () => {
  const { channel, states, connected } = place();
  channel.start();
  await settle();
  Wire.last.greets('ok', 'e1');
  Wire.last.says({ type: 'heartbeat' }, 'e7');
  Wire.last.onclose?.({ code: 1006 });
  await pass(1000);
  assert.equal(Wire.last.url.searchParams.get('lastEventId'), 'e7');
  Wire.last.greets('ok', 'e8');
  Wire.last.onclose?.({ code: 1006 });
  await pass(1000);
  Wire.last.greets('gap', 'e1');
  assert.deepEqual(connected.map(([, missed]) => missed), ['anything', 'nothing', 'anything']);
  assert.deepEqual(states, ['connecting', 'live', 'reconnecting', 'live', 'reconnecting', 'live']);
  channel.stop();
});

test('a session that is followed later may have said something before', async () => {
  const { channel, connected } = place();
  channel.start();
  await settle();
  Wire.last.greets();
  const before = Wire.last;
  channel.follow('abc');
  await settle();
  assert.deepEqual([before.isClosed, Wire.last.url.searchParams.get('sessionId'), Wire.last.url.searchParams.get('lastEventId')], [true, 'abc', 'e1']);
  Wire.last.greets('ok', 'e2');
  channel.follow('abc');
  await settle();
  assert.equal(Wire.all.length, 2);
  assert.deepEqual(connected.map(([, missed]) => missed), ['anything', 'messages']);
  channel.stop();
});

test('a session that is gone does not keep the others from being heard', async () => {
  const { channel, refused } = place();
  channel.start();
  await settle();
  Wire.last.greets();
  channel.follow('gone');
  await settle();
  Wire.last.onclose?.({ code: 1006 });
  assert.deepEqual(refused, ['gone']);
  channel.unfollow('another');
  channel.unfollow('gone');
  await pass(1000);
  assert.equal(Wire.last.url.searchParams.get('sessionId'), null);
  Wire.last.greets();
  Wire.last.onclose?.({ code: 1006 });
  assert.deepEqual(refused, ['gone']);
  channel.stop();
});

test('a JWT that has run out is replaced at once', async () => {
  const { channel, world } = place();
  channel.start();
  await settle();
  Wire.last.greets();
  Wire.last.onclose?.({ code: 4401 });
  await pass(1);
  assert.deepEqual([Wire.all.length, world.forgotten, Wire.last.url.searchParams.get('token')], [2, 1, 'jwt2']);
  channel.stop();
});

test('a JWT that may be why no connection begins is replaced after the second that did not', async () => {
  const { channel, world } = place();
  channel.start();
  await settle();
  const forgotten: number[] = [];
  for (let time = 0; time < 5; time += 1) {
    const { last } = Wire;
    if (last instanceof Stream) last.onerror?.();
    else last.onclose?.({ code: 1006 });
    forgotten.push(world.forgotten);
    await pass(20_000);
  }
  assert.deepEqual(forgotten, [0, 1, 1, 2, 2]);
  Wire.last.greets();
  // One that had begun says nothing of the JWT.
  for (let time = 0; time < 3; time += 1) {
    Wire.last.onclose?.({ code: 1006 });
    await pass(20_000);
    Wire.last.greets();
  }
  assert.equal(world.forgotten, 2);
  channel.stop();
});

test('where no WebSocket gets through it takes a stream, and later tries a WebSocket again', async () => {
  const { channel, events, states } = place();
  channel.start();
  await settle();
  for (const _ of [1, 2]) {
    assert.ok(Wire.last instanceof Socket);
    Wire.last.onclose?.({ code: 1006 });
    await pass(5000);
  }
  const stream = Wire.last;
  assert.ok(stream instanceof Stream);
  assert.equal(stream.url.protocol, 'http:');
  stream.greets('ok', 'e1');
  stream.says({ type: 'heartbeat' }, 'e5');
  assert.deepEqual([events.length, states.at(-1)], [1, 'live']);
  stream.onerror?.();
  await pass(5000);
  assert.ok(Wire.last instanceof Socket);
  assert.deepEqual([stream.isClosed, Wire.last.url.searchParams.get('lastEventId')], [true, 'e5']);
  channel.stop();
});

test('silence is taken for a broken connection', async () => {
  const { channel, states } = place();
  channel.start();
  await settle();
  Wire.last.greets();
  await pass(60_000);
  Wire.last.says({ type: 'heartbeat' }, 'e2');
  await pass(60_000);
  assert.equal(states.at(-1), 'live');
  await pass(20_000);
  assert.equal(states.at(-1), 'reconnecting');
  channel.stop();
});

test('without a network it waits for one', async () => {
  const { channel, states, world } = place();
  channel.start();
  await settle();
  Wire.last.greets();
  world.isOnline = false;
  channel.networkLost();
  await pass(600_000);
  assert.deepEqual([states.at(-1), Wire.all.length], ['offline', 1]);
  world.isOnline = true;
  channel.wake();
  await settle();
  assert.equal(Wire.all.length, 2);
  Wire.last.greets();
  assert.equal(states.at(-1), 'live');
  channel.wake();
  await settle();
  assert.equal(Wire.all.length, 2);
  channel.stop();
});

test('tries grow further apart, and a stopped channel tries no more', async () => {
  const { channel } = place();
  channel.start();
  await settle();
  const tries: number[] = [];
  for (let second = 0; second < 60; second += 1) {
    const before = Wire.all.length;
    const wire = Wire.last;
    wire.onclose?.({ code: 1006 });
    wire.onerror?.();
    wire.onclose = wire.onerror = null;
    await pass(1000);
    if (Wire.all.length > before) tries.push(second);
  }
  assert.ok(tries.length >= 5 && tries.length <= 12, `${tries}`);
  channel.stop();
  const count = Wire.all.length;
  await pass(600_000);
  assert.equal(Wire.all.length, count);
});

test('a channel that was stopped begins again with nothing of the one before', async () => {
  const { channel, connected } = place();
  channel.start();
  channel.follow('abc');
  await settle();
  Wire.last.greets('ok', 'e1');
  for (const _ of [1, 2]) {
    Wire.last.onclose?.({ code: 1006 });
    await pass(20_000);
  }
  channel.stop();
  channel.start();
  await settle();
  assert.ok(Wire.last instanceof Socket);
  assert.deepEqual(['sessionId', 'lastEventId'].map((name) => Wire.last.url.searchParams.get(name)), [null, null]);
  Wire.last.greets('ok', 'e1');
  assert.deepEqual(connected.map(([, missed]) => missed), ['anything', 'anything']);
  channel.stop();
});
