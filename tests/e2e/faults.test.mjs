/** Faults between the hub and its database, in the real runtime. What each does to every use case: `tests/it/faults.rs`. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { liveSession } from './lib/cli.mjs';
import { FAULTY_WORKER, startHub } from './lib/hub.mjs';

/** @type {import('./lib/hub.mjs').Hub} */
let hub;
before(async () => {
  hub = await startHub({ wrappers: FAULTY_WORKER });
});
after(() => hub.stop());

const on = (side, ...kinds) => kinds.map((kind) => ({ on: side, kind, ms: 500 }));

/** The seqs of a session's messages. */
async function seqs(session) {
  const { body } = await hub.web().get(`/cli/sessions/${session.id}/messages`);
  return body.messages.map(({ seq }) => seq);
}

test('writes that meet a passing fault, lose their answer or are slow are done and told once', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'transient' });
  const feed = await hub.web().socket({ sessionId: session.id });
  t.after(() => feed.close());
  for (const [at, kinds] of [['transient', 'transient'], ['lost'], ['slow'], ['transient', 'lost', 'transient']].entries()) {
    await hub.setFaults(on('writes', ...kinds));
    const ack = await cli.sendMessage(session.id, { at }, `l${at}`);
    assert.deepEqual([ack.ok, ack.seq], [true, at + 1], kinds.join());
    assert.equal((await feed.nextEvent('message-received')).message.seq, at + 1);
  }
  await hub.setFaults(on('writes', 'lost'));
  const made = await hub.web().openSession({ tag: 'made' });
  assert.equal((await hub.web().openSession({ tag: 'made' })).id, made.id);
  await hub.setFaults(on('writes', 'lost', 'transient'));
  const large = { text: 'x'.repeat(5_000_000) };
  assert.equal((await cli.sendMessage(session.id, large)).seq, 5, 'the parts of a large message, too');
  const told = await feed.nextEvent('message-received');
  assert.deepEqual([told.message.seq, told.message.content], [5, large]);
  assert.deepEqual(await seqs(session), [1, 2, 3, 4, 5]);
});

test('a write that is refused is told, undone, and over with the next one; the sockets stay', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'permanent' });
  const feed = await hub.web().socket({ sessionId: session.id });
  t.after(() => feed.close());
  assert.equal((await cli.sendMessage(session.id, 'first')).seq, 1);
  await hub.setFaults(on('writes', 'permanent'));
  const refused = await cli.sendMessage(session.id, 'lost', 'l');
  assert.deepEqual([refused.ok, refused.code], [false, 'unavailable']);
  await hub.setFaults(on('writes', 'permanent'));
  const send = () => hub.web().post(`/api/sessions/${session.id}/messages`, { text: 'hi', localId: 'w' });
  const { status, headers, body } = await send();
  assert.deepEqual([status, headers['retry-after'], body.code], [503, '1', 'hub_unavailable']);
  assert.equal((await send()).status, 200);
  assert.equal((await cli.sendMessage(session.id, 'again', 'l')).seq, 3);
  assert.deepEqual(await seqs(session), [1, 2, 3]);
  const heard = [];
  while (heard.length < 3) heard.push((await feed.nextEvent('message-received')).message.seq);
  assert.deepEqual(heard, [1, 2, 3]);
});

test('a read that meets a passing fault is tried again, by the worker and by the object; one that stays is a 503', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'reads' });
  await cli.sendMessage(session.id, 'hi');
  const page = () => hub.web().get(`/api/sessions/${session.id}/messages`);
  await hub.setFaults(on('reads', 'transient', 'transient'));
  assert.equal((await page()).body.messages.length, 1);
  await hub.setFaults(on('reads', 'lost'));
  assert.equal((await hub.web('fresh').get('/api/sessions')).status, 200);
  for (const kinds of [['permanent'], Array(6).fill('transient')]) {
    await hub.setFaults(on('reads', ...kinds));
    const { status, headers, body } = await page();
    assert.deepEqual([status, headers['retry-after'], body.code], [503, '1', 'hub_unavailable'], kinds.join());
    assert.equal((await page()).status, 200, 'and gone with the next one');
  }
});
