/**
 * The rows that a stored message writes, as D1 counts and bills them: `meta.rows_written`. Entries of indexes count as rows. The round
 * trips to D1 that a client waits for.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { TALLY_WORKER, startHub } from './lib/hub.mjs';

const hub = await startHub({ wrappers: TALLY_WORKER });
after(() => hub.stop());

/** More than the event log retains. */
const FULL_LOG = 1_300;

/** Sends messages one after another, and returns how many rows they wrote. */
async function countWrittenRows(namespace, { session, cli }, count, withLocalId = true) {
  const { rowsWritten } = await hub.readTally(namespace);
  for (let n = 0; n < count; n += 1) {
    const localId = withLocalId ? { localId: crypto.randomUUID() } : {};
    const ack = await cli.emitWithAck('message', { sid: session.id, message: { text: 'x'.repeat(2_000) }, ...localId });
    assert.equal(ack.ok, true);
  }
  return (await hub.readTally(namespace)).rowsWritten - rowsWritten;
}

test('a message writes its row and its key, and one row more for its local id', async (t) => {
  const namespace = 'without-clients';
  const live = await liveSession(t, hub, { namespace, tag: namespace, isSilent: true });
  await countWrittenRows(namespace, live, 1);
  assert.equal(await countWrittenRows(namespace, live, 20), 60);
  assert.equal(await countWrittenRows(namespace, live, 20, false), 40);
});

test('with web clients a message writes one row more, also when the event log is full', async (t) => {
  const namespace = 'with-clients';
  const live = await liveSession(t, hub, { namespace, tag: namespace, isSilent: true });
  await openFeed(t, hub.web(namespace), 'socket', { all: 'true', sessionId: live.session.id });
  await countWrittenRows(namespace, live, 1);
  assert.equal(await countWrittenRows(namespace, live, 20), 80);
  await countWrittenRows(namespace, live, FULL_LOG);
  assert.equal(await countWrittenRows(namespace, live, 20), 80);
  assert.equal(await countWrittenRows(namespace, live, 20, false), 60);
});

test('a client waits for one round trip to D1, and for two if the object was not in memory', async (t) => {
  const namespace = 'round-trips';
  const web = hub.web(namespace);
  const { session, cli } = await liveSession(t, hub, { namespace, tag: namespace, isSilent: true });
  await openFeed(t, web, 'socket', { all: 'true', sessionId: session.id });
  await cli.serve(`${session.id}:permission`, () => ({ success: true }));
  const path = `/api/sessions/${session.id}`;
  const requests = Object.fromEntries(['r1', 'r2'].map((id) => [id, { tool: 'Edit', arguments: {}, createdAt: Date.now() }]));
  const update = { sid: session.id, expectedVersion: 1, agentState: { requests } };
  assert.equal((await cli.emitWithAck('update-state', update)).result, 'success');
  await web.registerMachine({ id: 'first' });
  await hub.setRoundTripMs(100);
  t.after(() => hub.setRoundTripMs(0));
  for (const [isAwake, expected] of /** @type {const} */ ([
    [true, 1],
    [false, 2],
  ])) {
    const id = crypto.randomUUID();
    const operations = {
      'a new session': () => web.openSession({ tag: id }),
      'a new machine': () => web.registerMachine({ id }),
      'a message of the CLI': () => cli.emitWithAck('message', { sid: session.id, message: { text: 'hello' }, localId: id }),
      'a message of a web client': () => web.post(`${path}/messages`, { text: 'hello', localId: `web-${id}` }),
      'an approval': () => web.post(`${path}/permissions/${isAwake ? 'r1' : 'r2'}/approve`, {}),
      'a new name': () => web.patch(path, { name: id }),
      'the list of sessions': () => web.get('/api/sessions'),
    };
    for (const [name, run] of Object.entries(operations)) {
      if (!isAwake) await hub.hibernate(namespace);
      const { successiveRoundTrips } = await hub.readTally(namespace);
      const result = await run();
      const count = (await hub.readTally(namespace)).successiveRoundTrips - successiveRoundTrips;
      assert.ok(result.status === undefined || result.status === 200, `${name}: ${JSON.stringify(result.body)}`);
      assert.ok(count <= expected, `${name}, awake: ${isAwake}: ${count} round trips`);
    }
  }
});
