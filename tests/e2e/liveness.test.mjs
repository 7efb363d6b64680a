/** Liveness of sessions, with the clock of the test. tests/it/liveness.rs has all cases. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, startHub } from './lib/hub.mjs';

const hub = await startHub({ wrappers: CLOCK_WORKER });
after(() => hub.stop());

const SESSION_TIMEOUT_MS = 30_000;

test('a session becomes inactive 30 s after its last keep-alive, even while its socket is open', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'silent', tag: 'silent', isSilent: true });
  const feed = await hub.web('silent').openSocket({ all: 'true' });
  t.after(() => feed.close());
  await feed.waitForGreeting();
  await cli.keepAlive(session.id, { thinking: true });
  await hub.advance('silent', SESSION_TIMEOUT_MS / 2);
  assert.equal((await hub.web('silent').readSession(session.id)).active, true);
  await hub.advance('silent', SESSION_TIMEOUT_MS / 2);
  const { data } = await feed.nextUpdate({ active: false, thinking: false });
  assert.ok(data.updatedAt - data.activeAt >= SESSION_TIMEOUT_MS, `${data.updatedAt - data.activeAt} ms by the hub's clock`);
  assert.equal((await hub.web('silent').post(`/api/sessions/${session.id}/messages`, { text: 'x' })).status, 409);
  await cli.serve('listSkills', () => ({ success: true }));
  assert.equal((await hub.web('silent').get(`/api/sessions/${session.id}/skills`)).body.success, true);
  await cli.keepAlive(session.id);
  await feed.nextUpdate({ active: true });
});

test('sessions without any connected client become inactive in the database', async (t) => {
  for (const tag of ['one', 'two']) (await liveSession(t, hub, { namespace: 'alone', tag, isSilent: true })).cli.close();
  const database = await hub.database();
  const count = database.prepare("SELECT count(*) AS active FROM sessions WHERE namespace = 'alone' AND active = 1");
  assert.equal(await count.first('active'), 2);
  // The close of a socket restarts the timeout.
  const allEnded = async () => {
    await hub.advance('alone', SESSION_TIMEOUT_MS);
    return (await count.first('active')) === 0;
  };
  await eventually(allEnded, 'the sessions to be inactive in the database');
});
