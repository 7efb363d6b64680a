import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outbox } from '../src/outbox.mjs';
import { deferred, quietLog, nextTurn } from './support/wait.mjs';

/** A connection whose acknowledgements the test sends. */
class ManualSocket {
  isConnected = true;
  sent = [];
  reconnects = 0;

  sendWithAck(event, payload) {
    const { promise, resolve } = deferred();
    this.sent.push({ event, ...payload, resolve });
    return promise;
  }

  reconnect() {
    this.reconnects += 1;
  }

  texts() {
    return this.sent.map(({ message }) => message.text);
  }

  async acknowledge(...indexes) {
    for (const i of indexes) this.sent[i].resolve({ ack: { ok: true, id: `m${i}`, seq: i + 1 } });
    await nextTurn();
  }
}

function createOutbox(options = {}) {
  const socket = new ManualSocket();
  const log = quietLog();
  return { socket, log, box: new Outbox({ socket, sid: 's', log, retryDelayMs: 1, ...options }) };
}

test('messages are sent in order, each with its own local id', async () => {
  const { socket, box } = createOutbox();
  await Promise.all(['a', 'b', 'c'].map((text) => box.push({ text })));
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
  assert.equal(new Set(socket.sent.map(({ localId }) => localId)).size, 3);
  assert.equal(box.size, 3);
  await socket.acknowledge(0, 1, 2);
  assert.deepEqual([box.size, box.bytes], [0, 0]);
});

test('unacknowledged messages are sent again after a reconnect, with the same local ids', async () => {
  const { socket, box } = createOutbox();
  for (const text of ['a', 'b', 'c']) await box.push({ text });
  await socket.acknowledge(1);
  const sentBefore = socket.sent;
  socket.isConnected = false;
  box.onDisconnected();
  await box.push({ text: 'd' });
  socket.sent = [];
  socket.isConnected = true;
  box.onConnected();
  assert.deepEqual(socket.texts(), ['a', 'c', 'd']);
  assert.deepEqual(
    socket.sent.slice(0, 2).map(({ localId }) => localId),
    [sentBefore[0].localId, sentBefore[2].localId],
  );
  // A late answer of the earlier connection is ignored.
  sentBefore[0].resolve({ ack: { ok: true } });
  await nextTurn();
  assert.equal(box.size, 3);
  await socket.acknowledge(0, 1, 2);
  assert.equal(await box.flush(1000), true);
});

test('a missing acknowledgement causes a reconnect, because a resend would be out of order', async () => {
  const { socket, box } = createOutbox();
  await box.push({ text: 'a' });
  await box.push({ text: 'b' });
  socket.sent[0].resolve(null);
  await nextTurn();
  assert.equal(socket.reconnects, 1);
  assert.deepEqual(socket.texts(), ['a', 'b']);
  socket.sent = [];
  box.onDisconnected();
  box.onConnected();
  assert.deepEqual(socket.texts(), ['a', 'b']);
});

test('at most `maxInFlight` messages are in flight', async () => {
  const { socket, box } = createOutbox({ maxInFlight: 2 });
  for (const text of ['a', 'b', 'c', 'd']) await box.push({ text });
  assert.deepEqual(socket.texts(), ['a', 'b']);
  await socket.acknowledge(0);
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
});

test('a full outbox makes the sender wait', async () => {
  const { socket, box } = createOutbox({ maxBytes: 20 });
  await box.push({ text: 'twenty bytes or more' });
  let accepted = false;
  const waiting = box.push({ text: 'next' }).then(() => {
    accepted = true;
  });
  await nextTurn();
  assert.equal(accepted, false);
  await socket.acknowledge(0);
  await waiting;
  assert.deepEqual(socket.texts(), ['twenty bytes or more', 'next']);
});

test('a message is retried without a limit after transient refusals', async () => {
  const { socket, log, box } = createOutbox();
  await box.push({ text: 'a' });
  for (let round = 1; round <= 7; round += 1) {
    socket.sent.at(-1).resolve({ ack: { ok: false, code: 'hub_unavailable', error: 'no database' } });
    while (socket.sent.length === round) await nextTurn();
  }
  assert.deepEqual(log.warnings, []);
  await socket.acknowledge(7);
  assert.equal(box.size, 0);
});

test('after a refusal, the refused messages are sent before new ones', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { socket, box } = createOutbox();
  const refuse = (...indexes) => indexes.forEach((i) => socket.sent[i].resolve({ ack: { ok: false, code: 'overloaded' } }));
  for (const text of ['a', 'b', 'c']) await box.push({ text });
  refuse(0);
  await box.push({ text: 'd' });
  await nextTurn();
  // The pause after the refusal is over, but other answers are still missing.
  t.mock.timers.tick(20);
  await nextTurn();
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
  await socket.acknowledge(1);
  refuse(2);
  await nextTurn();
  t.mock.timers.tick(1);
  await nextTurn();
  assert.deepEqual(socket.texts(), ['a', 'b', 'c', 'a', 'c', 'd']);
  await socket.acknowledge(3, 4, 5);
  assert.equal(box.size, 0);
});

test('after a quota refuses messages, the first is sent again after each `retryAfterMs`, and the others once it is stored', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { socket, log, box } = createOutbox();
  const refuse = async (...indexes) => {
    const ack = { ok: false, code: 'overloaded', error: 'The storage is full.', quota: 'storage', retryAfterMs: 60_000 };
    for (const i of indexes) socket.sent[i].resolve({ ack });
    await nextTurn();
  };
  for (const text of ['a', 'b', 'c']) await box.push({ text });
  await refuse(0, 1, 2);
  for (const expectedCount of [4, 5]) {
    t.mock.timers.tick(59_999);
    await nextTurn();
    assert.equal(socket.sent.length, expectedCount - 1, 'the outbox waits as long as the hub asks');
    t.mock.timers.tick(1);
    await nextTurn();
    assert.deepEqual(socket.texts().slice(3), Array(expectedCount - 3).fill('a'), 'one message finds out whether there is space');
    if (expectedCount === 4) await refuse(3);
  }
  assert.equal(log.warnings.length, 1);
  assert.match(log.warnings[0], /storage is full/);
  await socket.acknowledge(4);
  assert.deepEqual(socket.texts().slice(5), ['b', 'c']);
  await socket.acknowledge(5, 6);
  assert.equal(await box.flush(1000), true);
});

test('a permanent refusal drops the message and logs a warning', async () => {
  const { socket, log, box } = createOutbox();
  await box.push({ text: 'a' });
  await box.push({ text: 'b' });
  socket.sent[0].resolve({ ack: { ok: false, code: 'invalid_body', error: 'too odd' } });
  await nextTurn();
  assert.match(log.warnings[0], /too odd/);
  await socket.acknowledge(1);
  assert.equal(await box.flush(1000), true);
});

test('flush returns false on timeout, and close rejects waiting senders', async () => {
  const { box } = createOutbox({ maxBytes: 1 });
  await box.push({ text: 'a' });
  const waiting = box.push({ text: 'b' });
  assert.equal(await box.flush(5), false);
  box.close();
  await assert.rejects(waiting, /session has ended/);
});
