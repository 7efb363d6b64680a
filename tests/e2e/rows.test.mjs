/** The rows that a stored message writes, as D1 counts and bills them: `meta.rows_written`. Entries of indexes count as rows. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { TALLY_WORKER, startHub } from './lib/hub.mjs';

const hub = await startHub({ after }, { wrappers: TALLY_WORKER });

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
  // The session stays active on a slow computer, too: a keep-alive writes no row, and the end of a session does.
  const live = await liveSession(t, hub, { namespace, tag: namespace });
  await openFeed(t, hub.web(namespace), 'socket', { all: 'true', sessionId: live.session.id });
  await countWrittenRows(namespace, live, 1);
  assert.equal(await countWrittenRows(namespace, live, 20), 80);
  await countWrittenRows(namespace, live, FULL_LOG);
  assert.equal(await countWrittenRows(namespace, live, 20), 80);
  assert.equal(await countWrittenRows(namespace, live, 20, false), 60);
});
