/** The round trips for which a client waits if the database is far away, in the real runtime. tests/it/distance.rs has all cases. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { liveSession } from '../../scripts/lib/clients/cli.mjs';
import { FAULTY_WORKER, startHub } from './lib/hub.mjs';

/** The duration of a round trip: much longer than everything else, even on a busy machine. */
const ROUND_TRIP_MS = 2_000;

/** @type {any[]} */
const SLOW = ['reads', 'writes'].flatMap((on) => Array.from({ length: 5 }, () => ({ on, kind: 'slow', ms: ROUND_TRIP_MS })));

test('the first message after a wake waits for two round trips to the database, and the list of sessions for one', async (t) => {
  const hub = await startHub({ wrappers: FAULTY_WORKER });
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { namespace: 'far', tag: 'far' });

  /** Returns how many round trips `run` waits for after a wake. */
  async function countRoundTrips(run) {
    await hub.hibernate('far');
    await hub.setFaults(SLOW);
    const start = Date.now();
    await run();
    const roundTrips = Math.floor((Date.now() - start) / ROUND_TRIP_MS);
    await hub.setFaults([]);
    return roundTrips;
  }

  const send = (localId) => async () => {
    const ack = await cli.sendMessage(session.id, { localId }, localId);
    assert.equal(ack.ok, true);
  };
  assert.equal(await countRoundTrips(send('one')), 2);
  assert.equal(await countRoundTrips(send('one')), 1, 'a message that was stored before');
  for (const path of ['/api/sessions', '/api/machines']) {
    assert.equal(await countRoundTrips(async () => assert.equal((await hub.web('far').get(path)).status, 200)), 1, path);
  }
  const { body } = await hub.web('far').get(`/api/sessions/${session.id}/messages`);
  assert.deepEqual(
    body.messages.map(({ seq, localId }) => [seq, localId]),
    [[1, 'one']],
  );
});
