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
  const lost = socket.sent;
  socket.isConnected = false;
  box.onDisconnected();
  await box.push({ text: 'd' });
  socket.sent = [];
  socket.isConnected = true;
  box.onConnected();
  assert.deepEqual(socket.texts(), ['a', 'c', 'd']);
  assert.deepEqual(
    socket.sent.slice(0, 2).map(({ localId }) => localId),
    [lost[0].localId, lost[2].localId],
  );
  // A late answer of the earlier connection is ignored.
  lost[0].resolve({ ack: { ok: true } });
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

test('at most one window of messages is in flight', async () => {
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
