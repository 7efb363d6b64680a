/** Liveness of sessions and machines, with the clock of the test. tests/it/liveness.rs has all cases. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { CLOCK_WORKER, startHub } from './lib/hub.mjs';

const hub = await startHub({ wrappers: CLOCK_WORKER });
after(() => hub.stop());

const SESSION_TIMEOUT_MS = 30_000;
const MACHINE_TIMEOUT_MS = 45_000;

async function openFeed(t, namespace, /** @type {Record<string, string>} */ query = { all: 'true' }) {
  const feed = await hub.web(namespace).openSocket(query);
  t.after(() => feed.close());
  await feed.waitForGreeting();
  return feed;
}

test('a keep-alive makes a session active, which is published at once', async (t) => {
  const web = hub.web('alive');
  const session = await web.openSession({ tag: 'alive' });
  const feed = await openFeed(t, 'alive');
  const cli = await connectCli(t, hub, { namespace: 'alive', auth: { sessionId: session.id } });
  assert.equal((await web.readSession(session.id)).active, false, 'a connected socket does not make a session active');
  await cli.keepAlive(session.id, { mode: 'remote', permissionMode: 'acceptEdits', modelMode: 'model_fast' });
  const { data } = await feed.nextUpdate({ active: true });
  assert.deepEqual([data.thinking, data.mode, data.permissionMode, data.modelMode], [false, 'remote', 'acceptEdits', 'model_fast']);
  const { active, mode, permissionMode, modelMode } = await web.readSession(session.id);
  assert.deepEqual([active, mode, permissionMode, modelMode], [true, 'remote', 'acceptEdits', 'model_fast']);
  await cli.keepAlive(session.id, { thinking: true, mode: 'local', permissionMode: 'plan' });
  await feed.nextUpdate({ thinking: true, mode: 'local', permissionMode: 'plan' });
});

test('a session becomes inactive 30 s after its last keep-alive, even while its socket is open', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'silent', tag: 'silent', isSilent: true });
  const feed = await openFeed(t, 'silent');
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

test('a machine becomes inactive 45 s after its last keep-alive', async (t) => {
  const web = hub.web('machine');
  await web.registerMachine({ id: 'm-clock' });
  const feed = await openFeed(t, 'machine', { machineId: 'm-clock' });
  const cli = await connectCli(t, hub, { namespace: 'machine', auth: { machineId: 'm-clock' } });
  await cli.emitWithAck('machine-alive', { machineId: 'm-clock', time: Date.now() });
  await feed.next(({ type, data }) => type === 'machine-updated' && data.active === true, 'the machine to be online');
  await hub.advance('machine', MACHINE_TIMEOUT_MS / 2);
  assert.equal((await web.get('/api/machines')).body.machines.length, 1);
  await hub.advance('machine', MACHINE_TIMEOUT_MS / 2);
  await feed.next(({ type, data }) => type === 'machine-updated' && data.active === false, 'the machine to be offline');
  assert.deepEqual((await web.get('/api/machines')).body, { machines: [] });
  assert.equal((await web.get('/cli/machines/m-clock')).body.machine.active, false, 'the inactive machine still exists');
});
