/** Database faults in the real runtime. `tests/it/faults.rs` tests database faults in every use case. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { FAULTY_WORKER, startHub } from './lib/hub.mjs';

const hub = await startHub({ after }, { wrappers: FAULTY_WORKER });

/** Faults of the next `reads` or `writes`. */
const faultsOf = (batches, ...kinds) => kinds.map((kind) => ({ on: batches, kind, ms: 500 }));

async function readSeqs(session) {
  const { body } = await hub.web().get(`/cli/sessions/${session.id}/messages`);
  return body.messages.map(({ seq }) => seq);
}

test('after transient faults, lost results and delays, writes are applied and published once', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'transient faults' });
  const feed = await hub.web().openSocket({ sessionId: session.id });
  t.after(() => feed.close());
  for (const [index, kinds] of [['transient', 'transient'], ['lost'], ['slow'], ['transient', 'lost', 'transient']].entries()) {
    await hub.setFaults(faultsOf('writes', ...kinds));
    const ack = await cli.sendMessage(session.id, { index }, `l${index}`);
    assert.deepEqual([ack.ok, ack.seq], [true, index + 1], kinds.join());
    assert.equal((await feed.nextEvent('message-received')).message.seq, index + 1);
  }
  await hub.setFaults(faultsOf('writes', 'lost'));
  const created = await hub.web().openSession({ tag: 'created' });
  assert.equal((await hub.web().openSession({ tag: 'created' })).id, created.id);
  await hub.setFaults(faultsOf('writes', 'lost', 'transient'));
  const large = { text: 'x'.repeat(5_000_000) };
  assert.equal((await cli.sendMessage(session.id, large)).seq, 5, 'a large message, which has several parts');
  const event = await feed.nextEvent('message-received');
  assert.deepEqual([event.message.seq, event.message.content], [5, large]);
  assert.deepEqual(await readSeqs(session), [1, 2, 3, 4, 5]);
});

test('a write that fails permanently is refused and undone; later writes and the sockets work', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'permanent faults' });
  const feed = await hub.web().openSocket({ sessionId: session.id });
  t.after(() => feed.close());
  assert.equal((await cli.sendMessage(session.id, 'first')).seq, 1);
  await hub.setFaults(faultsOf('writes', 'permanent'));
  const refused = await cli.sendMessage(session.id, 'lost', 'l');
  assert.deepEqual([refused.ok, refused.code], [false, 'unavailable']);
  await hub.setFaults(faultsOf('writes', 'permanent'));
  const send = () => hub.web().post(`/api/sessions/${session.id}/messages`, { text: 'hi', localId: 'w' });
  const { status, headers, body } = await send();
  assert.deepEqual([status, headers['retry-after'], body.code], [503, '1', 'hub_unavailable']);
  assert.equal((await send()).status, 200);
  assert.equal((await cli.sendMessage(session.id, 'again', 'l')).seq, 3);
  assert.deepEqual(await readSeqs(session), [1, 2, 3]);
  const published = [];
  while (published.length < 3) published.push((await feed.nextEvent('message-received')).message.seq);
  assert.deepEqual(published, [1, 2, 3]);
});

test('the worker and the object retry a read after a transient fault; a permanent fault is a 503', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'reads' });
  await cli.sendMessage(session.id, 'hi');
  const readMessages = () => hub.web().get(`/api/sessions/${session.id}/messages`);
  await hub.setFaults(faultsOf('reads', 'transient', 'transient'));
  assert.equal((await readMessages()).body.messages.length, 1);
  await hub.setFaults(faultsOf('reads', 'lost'));
  assert.equal((await hub.web('fresh').get('/api/sessions')).status, 200);
  await hub.setFaults(faultsOf('reads', 'permanent'));
  const { status, headers, body } = await readMessages();
  assert.deepEqual([status, headers['retry-after'], body.code], [503, '1', 'hub_unavailable']);
  assert.equal((await readMessages()).status, 200, 'the next read succeeds');
});

test('everything that waited for a failing database succeeds after the stall', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'failing database' });
  const feed = await hub.web().openSocket({ sessionId: session.id });
  t.after(() => feed.close());
  await hub.stall('failing');
  const send = (text) => cli.emitWithAck('message', { sid: session.id, message: text, localId: text });
  const checkDatabase = () => hub.webWithoutToken().get('/health?deep=1');
  const waiting = Promise.all([
    send('a'),
    send('b'),
    hub.web().openSession({ tag: 'created meanwhile' }),
    hub.web().get(`/api/sessions/${session.id}/messages`),
  ]);
  const health = await hub.advanceUntil(checkDatabase(), 'default', 1_000);
  assert.deepEqual([health.status, health.body.code], [503, 'hub_unavailable'], 'a health check waits for 5 s');
  await hub.advanceUntil(
    hub.stderr.first((text) => text.includes('"event":"database-stalled"'), 'a line about the stall'),
    'default',
    1_000,
  );
  await hub.endStall();
  const [one, other, , history] = await waiting;
  assert.deepEqual([one.seq, other.seq, history.status], [1, 2, 200]);
  assert.equal((await checkDatabase()).body.database, 'ok');
  for (const seq of [1, 2]) assert.equal((await feed.nextEvent('message-received')).message.seq, seq);
  assert.deepEqual(await readSeqs(session), [1, 2]);
  assert.equal((await hub.web().get(`/api/sessions/${session.id}`)).body.session.active, true);
  await hub.stdout.next((text) => text.includes('"event":"database-recovered"'), 'a line about the recovery');
});

test('a page that the worker cannot read within 20 s is read by the object', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'slow history' });
  await cli.sendMessage(session.id, 'hi');
  const read = () => hub.web().get(`/api/sessions/${session.id}/messages`);
  assert.doesNotMatch((await read()).headers['server-timing'], /object/);
  await hub.stall('failing', ['worker']);
  const { status, headers, body } = await hub.advanceUntil(read(), 'default', 20_000);
  await hub.endStall();
  assert.deepEqual([status, body.messages.length], [200, 1]);
  assert.match(headers['server-timing'], /object/);
});
