/** Liveness of sessions and machines: they are active while keep-alives arrive, and inactive after a timeout. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const SESSION_TIMEOUT_MS = 30_000;
const MACHINE_TIMEOUT_MS = 45_000;
/** The maximum delay of the hub. A keep-alive may count up to 5 s longer, and the computer may be busy. */
const MAX_DELAY_MS = 30_000;
/** Tolerance between times that this process and the runtime read: the runtime's clock stands still while it handles an event. */
const CLOCK_TOLERANCE_MS = 2_000;

async function openFeed(t, namespace, /** @type {Record<string, string>} */ query = { all: 'true' }) {
  const feed = await hub.web(namespace).openSocket(query);
  t.after(() => feed.close());
  await feed.waitForGreeting();
  return feed;
}

describe('a keep-alive', () => {
  test('makes a session active, which is published at once', async (t) => {
    const web = hub.web('alive');
    const session = await web.openSession({ tag: 'alive' });
    const feed = await openFeed(t, 'alive');
    const cli = await connectCli(t, hub, { namespace: 'alive', auth: { sessionId: session.id } });
    assert.equal((await web.readSession(session.id)).active, false, 'a connected socket does not make a session active');
    const time = Date.now();
    await cli.keepAlive(session.id, { mode: 'remote', permissionMode: 'acceptEdits', modelMode: 'model_fast' });
    const { data } = await feed.nextUpdate({ active: true });
    assert.deepEqual([data.thinking, data.mode, data.permissionMode, data.modelMode], [false, 'remote', 'acceptEdits', 'model_fast']);
    const now = await web.readSession(session.id);
    assert.deepEqual([now.active, now.mode, now.permissionMode, now.modelMode], [true, 'remote', 'acceptEdits', 'model_fast']);
    assert.ok(now.activeAt >= time - CLOCK_TOLERANCE_MS && now.activeAt <= Date.now() + CLOCK_TOLERANCE_MS);
  });

  test('sets and publishes thinking, control and mode', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'thinking', tag: 'thinking' });
    const feed = await openFeed(t, 'thinking', { sessionId: session.id });
    const before = Date.now();
    await cli.keepAlive(session.id, { thinking: true });
    const { data } = await feed.nextUpdate({ thinking: true });
    assert.ok(data.thinkingAt >= before - CLOCK_TOLERANCE_MS);
    await cli.keepAlive(session.id, { thinking: false, mode: 'local' });
    await feed.nextUpdate({ thinking: false, mode: 'local' });
    await cli.keepAlive(session.id, { permissionMode: 'plan' });
    await feed.nextUpdate({ permissionMode: 'plan' });
    const now = await hub.web('thinking').readSession(session.id);
    assert.deepEqual([now.thinking, now.mode, now.permissionMode], [false, 'local', 'plan']);
  });

  test('without a change is published at most every 10 s', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'quiet', tag: 'quiet', isSilent: true });
    const feed = await openFeed(t, 'quiet');
    for (let n = 0; n < 20; n += 1) await cli.keepAlive(session.id);
    await hub.web('quiet').patch(`/api/sessions/${session.id}`, { name: 'The end' });
    await feed.nextUpdate({ metadataVersion: 2 });
    const published = feed.all.filter(({ type, data }) => type === 'session-updated' && data.metadataVersion === undefined);
    assert.ok(published.length <= 2, `${published.length} times in far less than 20 s`);
  });

  test('counts when it arrives, even with a wrong time or invalid fields', async (t) => {
    const session = await hub.web('odd').openSession({ tag: 'odd' });
    const cli = await connectCli(t, hub, { namespace: 'odd', auth: { sessionId: session.id } });
    const before = Date.now();
    const ack = await cli.emitWithAck('session-alive', { sid: session.id, time: before - 11 * 60_000, thinking: 'yes' });
    assert.deepEqual(ack, { ok: true, ignored: ['thinking'] });
    const { active, thinking, activeAt } = await hub.web('odd').readSession(session.id);
    assert.deepEqual([active, thinking], [true, false]);
    assert.ok(activeAt >= before - CLOCK_TOLERANCE_MS, 'the hub uses its own clock');
    for (const payload of [{ sid: session.id }, { sid: session.id, time: 'now' }]) {
      assert.equal((await cli.emitWithAck('session-alive', payload)).ok, true, JSON.stringify(payload));
    }
  });

  test('is refused without a session id, and for a session of another namespace', async (t) => {
    const cli = await connectCli(t, hub, { namespace: 'odd', auth: {} });
    for (const payload of [{}, { sid: 5 }, 'text', null]) {
      assert.equal((await cli.emitWithAck('session-alive', payload)).ok, false, JSON.stringify(payload));
    }
    const foreign = await hub.web('not-odd').openSession({ tag: 'foreign' });
    await cli.keepAlive(foreign.id);
    assert.equal((await cli.nextError()).code, 'access-denied');
    assert.equal((await hub.web('not-odd').readSession(foreign.id)).active, false);
  });

  test('makes a session active again after session-end, which is published at once', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'ended', tag: 'ended', isSilent: true });
    const feed = await openFeed(t, 'ended');
    await cli.keepAlive(session.id, { thinking: true });
    await feed.nextUpdate({ thinking: true });
    await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
    await feed.nextUpdate({ active: false, thinking: false });
    const now = await hub.web('ended').readSession(session.id);
    assert.deepEqual([now.active, now.thinking], [false, false]);
    await cli.keepAlive(session.id);
    await feed.nextUpdate({ active: true });
  });
});

/** Waits until the session is inactive, and checks that this is not too early. */
async function waitUntilInactive(feed, earliest, namespace, id) {
  const { data } = await feed.nextUpdate({ active: false, thinking: false }, SESSION_TIMEOUT_MS + MAX_DELAY_MS);
  assert.ok(data.updatedAt - data.activeAt >= SESSION_TIMEOUT_MS, `${data.updatedAt - data.activeAt} ms by the hub's clock`);
  const now = Date.now();
  assert.ok(now >= earliest - CLOCK_TOLERANCE_MS, `${earliest - now} ms too early`);
  const { active, thinking } = await hub.web(namespace).readSession(id);
  assert.deepEqual([active, thinking], [false, false]);
}

describe('the timeout', { concurrency: true }, () => {
  test('of a session is 30 s after the last keep-alive, even while its socket is open', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'silent', tag: 'silent', isSilent: true });
    const feed = await openFeed(t, 'silent');
    // The time is read before the keep-alive, because the acknowledgement may be late.
    const earliest = Date.now() + SESSION_TIMEOUT_MS;
    await cli.keepAlive(session.id, { thinking: true });
    await waitUntilInactive(feed, earliest, 'silent', session.id);
    assert.equal(cli.socket.connected, true);
    assert.equal((await hub.web('silent').post(`/api/sessions/${session.id}/messages`, { text: 'x' })).status, 409);
    // The object was hibernated; its socket still works.
    await cli.serve('listSkills', () => ({ success: true }));
    assert.equal((await hub.web('silent').get(`/api/sessions/${session.id}/skills`)).body.success, true);
    await cli.keepAlive(session.id);
    await feed.nextUpdate({ active: true });
  });

  test('of a session restarts when its socket closes', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'closed', tag: 'closed', isSilent: true });
    const feed = await openFeed(t, 'closed');
    // The last keep-alive is 25 s old: without the close, 5 s would be left.
    await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
    await cli.keepAlive(session.id, { time: Date.now() - 25_000 });
    await feed.nextUpdate({ active: true });
    const earliest = Date.now() + SESSION_TIMEOUT_MS;
    cli.close();
    await waitUntilInactive(feed, earliest, 'closed', session.id);
  });

  test('of a session restarts when its connection is lost, with the token in the upgrade', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'broken', tag: 'broken', tokenIn: 'header', isSilent: true });
    const feed = await openFeed(t, 'broken');
    const earliest = Date.now() + SESSION_TIMEOUT_MS;
    cli.terminate();
    await waitUntilInactive(feed, earliest, 'broken', session.id);
  });

  test('of a session treats a keep-alive from the future as a current keep-alive', async (t) => {
    const session = await hub.web('future').openSession({ tag: 'future' });
    const feed = await openFeed(t, 'future');
    const cli = await connectCli(t, hub, { namespace: 'future', auth: { sessionId: session.id } });
    await cli.keepAlive(session.id, { time: Date.now() + 3_600_000 });
    await waitUntilInactive(feed, Date.now() + SESSION_TIMEOUT_MS - 1_000, 'future', session.id);
  });

  test('of a session is extended by keep-alives', async (t) => {
    const { session } = await liveSession(t, hub, { namespace: 'steady', tag: 'steady' });
    const silent = await liveSession(t, hub, { namespace: 'steady', tag: 'without keep-alives', isSilent: true });
    const feed = await openFeed(t, 'steady');
    const matches = ({ sessionId, data }) => sessionId === silent.session.id && data.active === false;
    await feed.next(matches, 'the end of the session without keep-alives', SESSION_TIMEOUT_MS + MAX_DELAY_MS);
    assert.equal((await hub.web('steady').readSession(session.id)).active, true);
    const ends = feed.all.filter(({ sessionId, data }) => sessionId === session.id && data.active === false);
    assert.deepEqual(ends, []);
    const published = feed.all.filter(({ sessionId, data }) => sessionId === session.id && data.active === true);
    assert.ok(published.length >= 1 && published.length <= 6, `published ${published.length} times in half a minute`);
  });

  test('of sessions is applied without any connected client', async (t) => {
    let earliest;
    // The sessions start shortly one after another, so that some sessions expire while the hub writes the expiry of earlier
    // sessions.
    for (let n = 0; n < 10; n += 1) {
      const { cli } = await liveSession(t, hub, { namespace: 'alone', tag: `alone ${n}` });
      earliest ??= Date.now() + SESSION_TIMEOUT_MS;
      cli.close();
    }
    const database = await hub.database();
    const count = database.prepare("SELECT count(*) AS active FROM sessions WHERE namespace = 'alone' AND active = 1");
    assert.equal(await count.first('active'), 10);
    // The test reads the database, because a request would wake the hub. Only its alarm may wake it.
    const allEnded = async () => (await count.first('active')) === 0;
    await eventually(allEnded, 'the sessions to be inactive in the database', SESSION_TIMEOUT_MS + MAX_DELAY_MS);
    assert.ok(Date.now() >= earliest - CLOCK_TOLERANCE_MS);
  });

  test('of a machine is 45 s after the last keep-alive', async (t) => {
    const web = hub.web('machine');
    await web.registerMachine({ id: 'm-clock' });
    const feed = await openFeed(t, 'machine', { machineId: 'm-clock' });
    const cli = await connectCli(t, hub, { namespace: 'machine', auth: { machineId: 'm-clock' } });
    const earliest = Date.now() + MACHINE_TIMEOUT_MS;
    await cli.emitWithAck('machine-alive', { machineId: 'm-clock', time: Date.now() });
    await feed.next(({ type, data }) => type === 'machine-updated' && data.active === true, 'the machine to be online');
    assert.equal((await web.get('/api/machines')).body.machines.length, 1);
    const matches = ({ type, data }) => type === 'machine-updated' && data.active === false;
    await feed.next(matches, 'the machine to be offline', MACHINE_TIMEOUT_MS + MAX_DELAY_MS);
    assert.ok(Date.now() >= earliest - CLOCK_TOLERANCE_MS, `${earliest - Date.now()} ms too early`);
    assert.deepEqual((await web.get('/api/machines')).body, { machines: [] });
    assert.equal((await web.get('/cli/machines/m-clock')).body.machine.active, false, 'the inactive machine still exists');
  });
});
