import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outbox } from '../src/outbox.mjs';
import { deferred, quietLog, turn } from './support/wait.mjs';

/** A connection whose acknowledgements the test gives by hand. */
class Line {
  connected = true;
  sent = [];
  cycles = 0;

  ask(event, payload) {
    const { promise, resolve } = deferred();
    this.sent.push({ event, ...payload, resolve });
    return promise;
  }

  cycle() {
    this.cycles += 1;
  }

  texts() {
    return this.sent.map(({ message }) => message.text);
  }

  async acknowledge(...indexes) {
    for (const i of indexes) this.sent[i].resolve({ ack: { ok: true, id: `m${i}`, seq: i + 1 } });
    await turn();
  }
}

function outbox(options = {}) {
  const socket = new Line();
  const log = quietLog();
  return { socket, log, box: new Outbox({ socket, sid: 's', log, retryMs: 1, ...options }) };
}

test('messages go out in order, each with an id of its own', async () => {
  const { socket, box } = outbox();
  await Promise.all(['a', 'b', 'c'].map((text) => box.push({ text })));
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
  assert.equal(new Set(socket.sent.map(({ localId }) => localId)).size, 3);
  assert.equal(box.size, 3);
  await socket.acknowledge(0, 1, 2);
  assert.deepEqual([box.size, box.bytes], [0, 0]);
});

test('what was not acknowledged goes out again after a reconnect, with the same ids and nothing twice', async () => {
  const { socket, box } = outbox();
  for (const text of ['a', 'b', 'c']) await box.push({ text });
  await socket.acknowledge(1);
  const lost = socket.sent;
  socket.connected = false;
  box.disconnected();
  await box.push({ text: 'd' });
  socket.sent = [];
  socket.connected = true;
  box.connected();
  assert.deepEqual(socket.texts(), ['a', 'c', 'd']);
  assert.deepEqual(
    socket.sent.slice(0, 2).map(({ localId }) => localId),
    [lost[0].localId, lost[2].localId],
  );
  // An answer that belongs to the connection before counts for nothing.
  lost[0].resolve({ ack: { ok: true } });
  await turn();
  assert.equal(box.size, 3);
  await socket.acknowledge(0, 1, 2);
  assert.equal(await box.flush(1000), true);
});

test('when no acknowledgement comes in time the connection is made anew instead of sending out of order', async () => {
  const { socket, box } = outbox();
  await box.push({ text: 'a' });
  await box.push({ text: 'b' });
  socket.sent[0].resolve(null);
  await turn();
  assert.equal(socket.cycles, 1);
  assert.deepEqual(socket.texts(), ['a', 'b']);
  socket.sent = [];
  box.disconnected();
  box.connected();
  assert.deepEqual(socket.texts(), ['a', 'b']);
});

test('no more than a window of messages is under way', async () => {
  const { socket, box } = outbox({ window: 2 });
  for (const text of ['a', 'b', 'c', 'd']) await box.push({ text });
  assert.deepEqual(socket.texts(), ['a', 'b']);
  await socket.acknowledge(0);
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
});

test('a full outbox makes the sender wait', async () => {
  const { socket, box } = outbox({ maxBytes: 20 });
  await box.push({ text: 'twenty bytes or more' });
  let accepted = false;
  const waiting = box.push({ text: 'next' }).then(() => {
    accepted = true;
  });
  await turn();
  assert.equal(accepted, false);
  await socket.acknowledge(0);
  await waiting;
  assert.deepEqual(socket.texts(), ['twenty bytes or more', 'next']);
});

test('a refusal that passes is tried again until it is taken', async () => {
  const { socket, log, box } = outbox();
  await box.push({ text: 'a' });
  for (let round = 1; round <= 7; round += 1) {
    socket.sent.at(-1).resolve({ ack: { ok: false, code: 'hub_unavailable', error: 'no database' } });
    while (socket.sent.length === round) await turn();
  }
  assert.deepEqual(log.warnings, []);
  await socket.acknowledge(7);
  assert.equal(box.size, 0);
});

test('after a refusal nothing new goes out before what was refused', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { socket, box } = outbox();
  const refuse = (...indexes) => indexes.forEach((i) => socket.sent[i].resolve({ ack: { ok: false, code: 'overloaded' } }));
  for (const text of ['a', 'b', 'c']) await box.push({ text });
  refuse(0);
  await box.push({ text: 'd' });
  await turn();
  // Longer than the pause after a refusal: the answers to the others are still missing.
  t.mock.timers.tick(20);
  await turn();
  assert.deepEqual(socket.texts(), ['a', 'b', 'c']);
  await socket.acknowledge(1);
  refuse(2);
  await turn();
  t.mock.timers.tick(1);
  await turn();
  assert.deepEqual(socket.texts(), ['a', 'b', 'c', 'a', 'c', 'd']);
  await socket.acknowledge(3, 4, 5);
  assert.equal(box.size, 0);
});

test('a refusal for good drops the message and says so', async () => {
  const { socket, log, box } = outbox();
  await box.push({ text: 'a' });
  await box.push({ text: 'b' });
  socket.sent[0].resolve({ ack: { ok: false, code: 'invalid_body', error: 'too odd' } });
  await turn();
  assert.match(log.warnings[0], /too odd/);
  await socket.acknowledge(1);
  assert.equal(await box.flush(1000), true);
});

test('flush gives up when time runs out, and closing lets waiting senders go', async () => {
  const { box } = outbox({ maxBytes: 1 });
  await box.push({ text: 'a' });
  const waiting = box.push({ text: 'b' });
  assert.equal(await box.flush(5), false);
  box.close();
  await assert.rejects(waiting, /session has ended/);
});
