// The event channel: connecting, resuming, timeouts and reconnects.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeConnection, FakeSocket, FakeStream, setup } from './support/fake-browser.ts';
import { advance, flushPromises } from './support/promises.ts';

test('opens a WebSocket with a JWT, delivers events and answers heartbeats', async () => {
  const { states, events, connected } = await setup();
  const connection = FakeConnection.last;
  assert.equal(connection.url.href, 'ws://hub.test/api/events?all=true&visibility=visible&device=desk&token=jwt1');
  connection.accept();
  connection.deliver({ type: 'heartbeat' }, 'e2');
  assert.deepEqual(
    [states, connected, events.map(({ type }) => type), connection.sent],
    [['connecting', 'live'], [['s1', 'all']], ['heartbeat'], ['read']],
  );
});

test('reconnects with the last event id and reports the gap', async () => {
  const { states, connected } = await setup();
  FakeConnection.last.accept('ok', 'e1');
  FakeConnection.last.deliver({ type: 'heartbeat' }, 'e7');
  FakeConnection.last.onclose?.({ code: 1006 });
  await advance(1000);
  assert.equal(FakeConnection.last.url.searchParams.get('lastEventId'), 'e7');
  FakeConnection.last.accept('ok', 'e8');
  FakeConnection.last.onclose?.({ code: 1006 });
  await advance(1000);
  FakeConnection.last.accept('gap', 'e1');
  assert.deepEqual(
    connected.map(([, gap]) => gap),
    ['all', 'none', 'all'],
  );
  assert.deepEqual(states, ['connecting', 'live', 'reconnecting', 'live', 'reconnecting', 'live']);
});

test('`follow` reconnects from the last event before the call, so that a fetch after the call misses no event', async () => {
  const { channel, connected } = await setup();
  FakeConnection.last.accept();
  const before = FakeConnection.last;
  channel.follow('abc');
  // This event may be about a message that the old connection does not deliver, so it must not move the start of the new connection.
  before.deliver({ type: 'session-updated', sessionId: 'abc', data: {} }, 'e9');
  await flushPromises();
  assert.deepEqual(
    [before.isClosed, FakeConnection.last.url.searchParams.get('sessionId'), FakeConnection.last.url.searchParams.get('lastEventId')],
    [true, 'abc', 'e1'],
  );
  FakeConnection.last.accept('ok', 'e2');
  channel.follow('abc');
  await flushPromises();
  assert.equal(FakeConnection.all.length, 2);
  assert.deepEqual(
    connected.map(([, gap]) => gap),
    ['all', 'none'],
  );
});

test('unfollowing a deleted session lets the channel reconnect', async () => {
  const { channel, failedConnects } = await setup();
  FakeConnection.last.accept();
  channel.follow('gone');
  await flushPromises();
  FakeConnection.last.onclose?.({ code: 1006 });
  assert.deepEqual(failedConnects, ['gone']);
  channel.unfollow('another');
  channel.unfollow('gone');
  await advance(1000);
  assert.equal(FakeConnection.last.url.searchParams.get('sessionId'), null);
  FakeConnection.last.accept();
  FakeConnection.last.onclose?.({ code: 1006 });
  assert.deepEqual(failedConnects, ['gone']);
});

test('replaces an expired JWT and reconnects at once', async () => {
  const { browser } = await setup();
  FakeConnection.last.accept();
  FakeConnection.last.onclose?.({ code: 4401 });
  await advance(1);
  assert.deepEqual([FakeConnection.all.length, browser.invalidated, FakeConnection.last.url.searchParams.get('token')], [2, 1, 'jwt2']);
});

test('if no connection succeeds with a new JWT, reports once that the hub refuses the token', async () => {
  const { browser } = await setup();
  FakeConnection.last.accept();
  FakeConnection.last.onclose?.({ code: 4401 });
  await advance(1);
  FakeConnection.last.accept();
  FakeConnection.last.onclose?.({ code: 1006 });
  await advance(5000);
  FakeConnection.last.accept();
  assert.equal(browser.refused, 0);
  FakeConnection.last.onclose?.({ code: 4401 });
  await advance(1);
  FakeConnection.last.onclose?.({ code: 1006 });
  assert.equal(browser.refused, 1);
  await advance(5000);
  FakeConnection.last.onclose?.({ code: 1006 });
  assert.equal(browser.refused, 1);
});

test('replaces the JWT after two failed connects', async () => {
  const { browser } = await setup();
  const invalidated: number[] = [];
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const { last } = FakeConnection;
    if (last instanceof FakeStream) last.onerror?.();
    else last.onclose?.({ code: 1006 });
    invalidated.push(browser.invalidated);
    await advance(20_000);
  }
  assert.deepEqual(invalidated, [0, 1, 1, 2, 2]);
  FakeConnection.last.accept();
  // The loss of an established connection does not count.
  for (let loss = 0; loss < 3; loss += 1) {
    FakeConnection.last.onclose?.({ code: 1006 });
    await advance(20_000);
    FakeConnection.last.accept();
  }
  assert.equal(browser.invalidated, 2);
});

test('reconnects after the idle timeout', async () => {
  const { states } = await setup();
  FakeConnection.last.accept();
  await advance(60_000);
  FakeConnection.last.deliver({ type: 'heartbeat' }, 'e2');
  await advance(90_000);
  assert.equal(states.at(-1), 'live');
  await advance(5_000);
  assert.equal(states.at(-1), 'reconnecting');
});

test('a probe replaces a socket whose hub does not answer within three seconds', async () => {
  const { channel, states } = await setup();
  const lost = FakeConnection.last;
  lost.accept('ok', 'e1');
  await advance(50_000);
  channel.probe();
  channel.probe();
  assert.deepEqual(lost.sent, ['probe']);
  await advance(2_999);
  assert.equal(lost.isClosed, false);
  await advance(1);
  await advance(0);
  assert.deepEqual([lost.isClosed, FakeConnection.all.length], [true, 2]);
  assert.equal(FakeConnection.last.url.searchParams.get('lastEventId'), 'e1');
  FakeConnection.last.accept('ok', 'e2');
  assert.equal(states.at(-1), 'live');
});

test('after the computer slept, the state is `checking` until the hub sends a frame', async () => {
  const { channel, states } = await setup();
  const { last } = FakeConnection;
  last.accept();
  await advance(20_000);
  channel.probe();
  last.deliver({ type: 'probe' });
  assert.deepEqual(states, ['connecting', 'live'], 'the last frame is recent');
  await advance(50_000);
  channel.probe();
  assert.equal(states.at(-1), 'checking');
  await advance(2_000);
  assert.equal(states.at(-1), 'checking');
  last.deliver({ type: 'probe' });
  assert.equal(states.at(-1), 'live');
  await advance(50_000);
  channel.probe();
  await advance(3_000);
  assert.deepEqual(states.slice(-2), ['checking', 'reconnecting']);
});

test('a connection that follows another session is live only after its first frame', async () => {
  const { channel, states } = await setup();
  FakeConnection.last.accept();
  channel.follow('abc');
  await flushPromises();
  assert.equal(states.at(-1), 'connecting');
  FakeConnection.last.accept();
  assert.equal(states.at(-1), 'live');
});

test('a probe keeps a socket whose hub answers, and can be repeated', async () => {
  const { channel, events } = await setup();
  const { last } = FakeConnection;
  last.accept();
  for (const answer of [() => last.deliver({ type: 'probe' }), () => last.deliver({ type: 'heartbeat' }, 'e2')]) {
    channel.probe();
    await advance(2_000);
    answer();
    await advance(20_000);
  }
  assert.deepEqual([last.sent, last.isClosed, events.length], [['probe', 'probe', 'read'], false, 2]);
});

test('a probe waits for a socket that is opening', async () => {
  const { channel } = await setup();
  channel.probe();
  await advance(9_000);
  FakeConnection.last.accept();
  await advance(60_000);
  assert.equal(FakeConnection.all.length, 1);
});

test('keeps a connection on which the hub answers although the browser says that it is offline: the hub may be on this computer', async () => {
  const { channel, states, browser } = await setup();
  FakeConnection.last.accept();
  browser.isOnline = false;
  channel.handleOffline();
  assert.equal(states.at(-1), 'checking');
  FakeConnection.last.deliver({ type: 'probe' });
  await advance(10_000);
  assert.deepEqual([states.at(-1), FakeConnection.all.length, FakeConnection.last.isClosed], ['live', 1, false]);
});

test('is offline if the hub does not answer, tries again with WebSockets, and reconnects at once when the browser is online', async () => {
  const { channel, states, browser } = await setup();
  FakeConnection.last.accept();
  browser.isOnline = false;
  channel.handleOffline();
  await advance(3000);
  assert.deepEqual([states.at(-1), FakeConnection.all[0]?.isClosed], ['offline', true]);
  for (let attempt = 2; attempt < 8; attempt += 1) {
    await advance(20_000);
    assert.deepEqual([states.at(-1), FakeConnection.all.length, FakeConnection.last instanceof FakeSocket], ['offline', attempt, true]);
    FakeConnection.last.onclose?.({ code: 1006 });
  }
  const { length } = FakeConnection.all;
  channel.handleOffline();
  assert.equal(states.at(-1), 'offline');
  browser.isOnline = true;
  channel.probe();
  await flushPromises();
  assert.equal(FakeConnection.all.length, length + 1);
  FakeConnection.last.accept();
  channel.probe();
  await flushPromises();
  assert.deepEqual([states.at(-1), FakeConnection.all.length], ['live', length + 1]);
});

test('pauses between attempts double up to 15 s, each a random quarter shorter or longer, and end when it is stopped', async (t) => {
  const { channel } = await setup();
  for (const [random, factor] of [
    [0, 0.75],
    [1, 1.25],
  ] as const) {
    t.mock.method(Math, 'random', () => random);
    channel.start();
    await flushPromises();
    for (const pause of [500, 1000, 2000, 4000, 8000, 15_000, 15_000]) {
      const { last } = FakeConnection;
      (last.onclose ?? last.onerror)?.({ code: 1006 });
      await advance(pause * factor - 1);
      assert.equal(FakeConnection.last === last, true, `${pause}`);
      await advance(1);
      assert.equal(FakeConnection.last === last, false, `${pause}`);
    }
    channel.stop();
  }
  const count = FakeConnection.all.length;
  await advance(600_000);
  assert.equal(FakeConnection.all.length, count);
});

test('a restart after a stop forgets the session, the last event and the fallback', async () => {
  const { channel, connected } = await setup();
  channel.follow('abc');
  await flushPromises();
  FakeConnection.last.accept('ok', 'e1');
  for (const _ of [1, 2]) {
    FakeConnection.last.onclose?.({ code: 1006 });
    await advance(20_000);
  }
  channel.stop();
  channel.start();
  await flushPromises();
  assert.ok(FakeConnection.last instanceof FakeSocket);
  assert.deepEqual(
    ['sessionId', 'lastEventId'].map((name) => FakeConnection.last.url.searchParams.get(name)),
    [null, null],
  );
  FakeConnection.last.accept('ok', 'e1');
  assert.deepEqual(
    connected.map(([, gap]) => gap),
    ['all', 'all'],
  );
});
