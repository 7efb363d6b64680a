// The event channel behind proxies that block WebSockets or hold back streams.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeConnection, FakeSocket, FakeStream, setup } from './support/fake-browser.ts';
import { advance, flushPromises } from './support/promises.ts';

/** Fails WebSockets until the channel opens a stream. Returns the stream, which has not received an event. */
async function failSockets(): Promise<FakeStream> {
  for (const _ of [1, 2]) {
    FakeConnection.last.onclose?.({ code: 1006 });
    await advance(5000);
  }
  assert.ok(FakeConnection.last instanceof FakeStream);
  return FakeConnection.last;
}

test('falls back to server-sent events, and later tries a WebSocket again', async () => {
  const { events, states } = await setup();
  for (const _ of [1, 2]) {
    assert.ok(FakeConnection.last instanceof FakeSocket);
    FakeConnection.last.onclose?.({ code: 1006 });
    await advance(5000);
  }
  const stream = FakeConnection.last;
  assert.ok(stream instanceof FakeStream);
  assert.equal(stream.url.protocol, 'http:');
  stream.accept('ok', 'e1');
  stream.deliver({ type: 'heartbeat' }, 'e5');
  assert.deepEqual([events.length, states.at(-1)], [1, 'live']);
  stream.onerror?.();
  await advance(5000);
  assert.ok(FakeConnection.last instanceof FakeSocket);
  assert.deepEqual([stream.isClosed, FakeConnection.last.url.searchParams.get('lastEventId')], [true, 'e5']);
});

test('a WebSocket that does not open within ten seconds has failed', async () => {
  const { failedConnects } = await setup();
  for (const count of [1, 2]) {
    const { last } = FakeConnection;
    assert.ok(last instanceof FakeSocket);
    await advance(9_999);
    assert.equal(last.isClosed, false);
    await advance(1);
    assert.deepEqual([last.isClosed, failedConnects.length], [true, count]);
    await advance(2000);
  }
  assert.ok(FakeConnection.last instanceof FakeStream);
  FakeConnection.last.accept();
  await advance(20_000);
  assert.equal(FakeConnection.last.isClosed, false);
});

test('a WebSocket that opens in time is not closed', async () => {
  await setup();
  FakeConnection.last.onopen?.();
  await advance(20_000);
  assert.equal(FakeConnection.last.isClosed, false);
});

test('while a stream works, the channel tries no WebSocket, and one WebSocket after the stream was lost', async () => {
  const { channel } = await setup();
  (await failSockets()).accept();
  channel.follow('abc');
  await flushPromises();
  const stream = FakeConnection.last;
  assert.ok(stream instanceof FakeStream);
  stream.accept();
  stream.onerror?.();
  await advance(5000);
  assert.ok(FakeConnection.last instanceof FakeSocket);
  FakeConnection.last.onclose?.({ code: 1006 });
  await advance(5000);
  assert.ok(FakeConnection.last instanceof FakeStream);
});

test('a stream whose events are held back is replaced by polling until an event arrives', async () => {
  const { channel, browser, states } = await setup();
  const stream = await failSockets();
  await advance(9_999);
  assert.equal(browser.polls, 0);
  await advance(1);
  assert.deepEqual([browser.polls, states.at(-1), stream.isClosed], [1, 'polling', false]);
  const polledFrom = states.length - 1;
  await advance(10_000);
  assert.equal(browser.polls, 2);
  channel.follow('abc');
  await flushPromises();
  assert.equal(states.at(-1), 'polling', 'a new stream is not live yet');
  await advance(10_000);
  assert.equal(browser.polls, 3);
  const silent = FakeConnection.last;
  for (let seconds = 0; seconds < 85; seconds += 5) await advance(5_000);
  assert.deepEqual(
    [silent.isClosed, browser.polls, states.filter((state) => state !== 'polling').length],
    [true, 11, polledFrom],
    'the stream is replaced after the idle timeout',
  );
  FakeConnection.last.accept();
  await advance(20_000);
  FakeConnection.last.deliver({ type: 'heartbeat' }, 'e2');
  await advance(34_999);
  assert.deepEqual([browser.polls, states.at(-1)], [11, 'live']);
  await advance(1);
  assert.deepEqual([browser.polls, states.at(-1)], [12, 'polling'], 'the heartbeat is late');
  FakeConnection.last.deliver({ type: 'heartbeat' }, 'e3');
  assert.equal(states.at(-1), 'live');
  channel.stop();
  await advance(60_000);
  assert.equal(browser.polls, 12);
});

test('a hidden page polls without a stream, because browsers limit the connections to a host, and keeps a WebSocket', async () => {
  const { channel, browser, states } = await setup();
  const stream = await failSockets();
  stream.accept('ok', 'e1');
  browser.isVisible = false;
  channel.handleHidden();
  await flushPromises();
  assert.deepEqual([stream.isClosed, browser.polls, states.at(-1)], [true, 1, 'polling']);
  await advance(10_000);
  assert.equal(browser.polls, 2);
  const count = FakeConnection.all.length;
  browser.isVisible = true;
  channel.probe();
  await flushPromises();
  assert.equal(FakeConnection.all.length, count + 1);
  assert.equal(FakeConnection.last.url.searchParams.get('lastEventId'), 'e1');
  FakeConnection.last.accept('ok', 'e2');
  await advance(20_000);
  assert.deepEqual([browser.polls, states.at(-1)], [2, 'live']);
  channel.stop();
  channel.start();
  await flushPromises();
  FakeConnection.last.accept();
  channel.handleHidden();
  await flushPromises();
  assert.deepEqual([FakeConnection.last.isClosed, FakeConnection.all.length], [false, count + 2]);
});

test('of the windows with a stream, the three that opened theirs last keep it, and another one polls until it is used', async () => {
  const windows: (Awaited<ReturnType<typeof setup>> & { streams: number })[] = [];
  const addWindow = async () => {
    const id = windows.length;
    const added = await setup((isOpen) => {
      for (const [index, other] of windows.entries()) {
        if (index === id) other.streams += isOpen ? 1 : -1;
        else other.channel.handleOtherStream(`${id}`, isOpen);
      }
    });
    windows.push({ ...added, streams: 0 });
    return failSockets();
  };
  const readStreams = () => windows.map(({ streams }) => streams);
  for (const _ of [1, 2, 3]) (await addWindow()).accept('ok', 'e1');
  assert.deepEqual(readStreams(), [1, 1, 1]);
  for (const _ of [1, 2]) {
    // A window that follows another session, or reconnects, does not count twice.
    windows[2]?.channel.follow('a');
    await flushPromises();
    windows[2]?.channel.follow('b');
    await flushPromises();
  }
  assert.deepEqual(readStreams(), [1, 1, 1]);
  await addWindow();
  const [first, second] = windows;
  assert.ok(first && second);
  assert.deepEqual([readStreams(), first.states.at(-1)], [[0, 1, 1, 1], 'polling']);
  for (let count = 0; count < 10; count += 1) await advance(10_000);
  assert.deepEqual([readStreams(), first.browser.polls], [[0, 1, 1, 1], 11], 'it polls until it is used');
  first.channel.probe();
  await flushPromises();
  assert.equal(FakeConnection.last.url.searchParams.get('lastEventId'), 'e1');
  FakeConnection.last.accept();
  assert.deepEqual([readStreams(), first.states.at(-1), second.states.at(-1)], [[1, 0, 1, 1], 'live', 'polling']);
  // A window whose stream was closed leaves room.
  windows[3]?.channel.stop();
  second.channel.probe();
  await flushPromises();
  assert.deepEqual(readStreams(), [1, 1, 1, 0]);
  for (const { channel } of windows) channel.stop();
  assert.deepEqual(readStreams(), [0, 0, 0, 0]);
});

test('windows that crashed do not count any more once a window was used', async () => {
  const { channel, browser } = await setup();
  (await failSockets()).accept();
  // Each of these windows opened a stream and crashed, so that it reports no end.
  for (const id of ['a', 'b', 'c']) channel.handleOtherStream(id, true);
  await flushPromises();
  assert.equal(browser.polls, 1);
  channel.probe();
  await flushPromises();
  const stream = FakeConnection.last;
  stream.accept();
  for (const id of ['d', 'e']) channel.handleOtherStream(id, true);
  await flushPromises();
  assert.deepEqual([stream.isClosed, browser.polls], [false, 1]);
});

test('a window with a WebSocket keeps it, however many other windows open a stream', async () => {
  const { channel, browser } = await setup();
  FakeConnection.last.accept();
  for (const id of ['a', 'b', 'c', 'd']) channel.handleOtherStream(id, true);
  await flushPromises();
  assert.deepEqual([FakeConnection.all.length, FakeConnection.last.isClosed, browser.polls], [1, false, 0]);
});

test('a probe of a stream waits for the next heartbeat', async () => {
  const { channel } = await setup();
  const stream = await failSockets();
  stream.accept();
  await advance(20_000);
  channel.probe();
  await advance(14_000);
  stream.deliver({ type: 'heartbeat' }, 'e2');
  await advance(50_000);
  assert.equal(stream.isClosed, false);
  channel.probe();
  await advance(3_000);
  assert.equal(stream.isClosed, true);
});
