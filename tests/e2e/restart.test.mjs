/** The hub ends in the middle of everything and starts again on what it stored: nothing is lost, and clients come back. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const SESSION_MS = 30_000;
const CLOCK_MS = 250;
const COUNT = 300;

/** The token comes in both ways: through the worker's bridge, and straight to the object. */
const WAYS = ['connect', 'header'];

/** All that a web client can read of a session, but for what changes by itself. */
async function everything(web, id) {
  const { session } = (await web.get(`/api/sessions/${id}`)).body;
  const { activeAt: _, ...rest } = session;
  return { session: rest, messages: await web.readHistory(id) };
}

describe('a restart of the hub', { concurrency: true }, () => {
  for (const way of WAYS) {
    test(`loses nothing, and its CLI goes on by itself (token by ${way})`, async (t) => {
      const hub = await startHub();
      t.after(() => hub.stop());
      const web = hub.web('kept');
      const jwt = (await web.post('/api/auth', { accessToken: hub.token('kept') })).body.token;

      // A session with all that it can have, and others besides.
      const { session, cli } = await liveSession(t, hub, { namespace: 'kept', tag: '/code/kept', way, reconnection: true });
      const metadata = { ...session.metadata, name: 'Kept', opaque: { zeta: 1, alpha: 1.5 } };
      await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata });
      const agentState = { requests: { r1: { tool: 'shell', arguments: {} } } };
      await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState });
      await cli.keepAlive(session.id, { thinking: true, mode: 'remote', permissionMode: 'plan', modelMode: 'model_fast' });
      const lastSign = Date.now();
      await web.post(`/api/sessions/${session.id}/messages`, { text: 'from the web', localId: 'w-1' });
      await Promise.all(Array.from({ length: COUNT }, (_, n) => cli.sendMessage(session.id, { n }, `l-${n}`)));
      const idle = await web.openSession({ tag: '/code/idle' });
      const machine = await web.registerMachine({ id: 'm-kept', runnerState: { status: 'running' } });
      await cli.emitWithAck('machine-alive', { machineId: 'm-kept', time: Date.now() });
      await cli.serve('listSkills', () => ({ success: true, skills: [] }));

      const before = await everything(web, session.id);
      const [list, machines] = [await web.get('/api/sessions'), await web.get('/api/machines')];
      // The CLI registers anew on every connection, as any CLI does.
      cli.socket.on('connect', () => cli.socket.emit('rpc-register', { method: 'listSkills' }));
      await cli.waitForReconnect(() => hub.restart());

      assert.deepEqual(await everything(web, session.id), before);
      assert.deepEqual([before.session.active, before.session.thinking, before.session.permissionMode], [true, true, 'plan']);
      assert.deepEqual((await web.get('/api/sessions')).body, list.body);
      assert.deepEqual((await web.get('/api/machines')).body, machines.body);
      assert.equal((await web.openSession({ tag: '/code/kept' })).id, session.id, 'the tag still leads to it');
      assert.equal((await web.openSession({ tag: '/code/idle' })).id, idle.id);
      assert.equal((await web.registerMachine({ id: machine.id })).createdAt, machine.createdAt);
      assert.equal((await hub.web('kept', jwt).get('/api/sessions')).status, 200, 'a web client’s token still counts');

      // What was sent before is known, what is new goes on from there.
      const again = await cli.sendMessage(session.id, { n: 0 }, 'l-0');
      assert.equal(again.id, before.messages.find(({ localId }) => localId === 'l-0').id);
      assert.equal((await cli.sendMessage(session.id, { n: 'new' })).seq, COUNT + 2);
      const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'still active' });
      assert.equal(sent.body.message?.seq, COUNT + 3, sent.text);
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'from the web');
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'still active');
      assert.deepEqual((await web.get(`/api/sessions/${session.id}/skills`)).body, { success: true, skills: [] });
      const stale = await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata });
      assert.deepEqual([stale.result, stale.version, stale.metadata], ['version-mismatch', 2, metadata]);

      // The clock of life went on: no sign came since.
      const feed = await web.socket({ sessionId: session.id });
      t.after(() => feed.close());
      await feed.nextUpdate({ active: false, thinking: false }, 2 * SESSION_MS);
      assert.ok(Date.now() >= lastSign + SESSION_MS - CLOCK_MS, 'not before its time');
    });
  }

  for (const way of WAYS) {
    test(`is nothing that a call notices whose CLI has not registered its methods again (token by ${way})`, async (t) => {
      const hub = await startHub();
      t.after(() => hub.stop());
      const web = hub.web('unnoticed');
      const { session, cli } = await liveSession(t, hub, { namespace: 'unnoticed', tag: 'called', way });
      await cli.serve('gitStatus', () => ({ success: true, branch: 'main' }));
      const read = () => web.get(`/api/sessions/${session.id}/git-status`);
      assert.equal((await read()).body.branch, 'main');
      await hub.restart();
      // How long a client takes to come back is its own and the machine's business: tests/it/grace.rs has the hub's clock.
      const back = await connectCli(t, hub, { namespace: 'unnoticed', way, auth: { sessionId: session.id } });
      const call = read();
      // The hub has read the request before the method is registered.
      await web.get(`/api/sessions/${session.id}`);
      await back.serve('gitStatus', () => ({ success: true, branch: 'still main' }));
      assert.deepEqual((await call).body, { success: true, branch: 'still main' });
    });
  }

  test('in the middle of a stream of messages keeps every acknowledged one, and the rest can be sent again', async (t) => {
    const hub = await startHub();
    t.after(() => hub.stop());
    const { session, cli } = await liveSession(t, hub, { namespace: 'stream', tag: 'stream', way: 'header', reconnection: true });
    const acked = new Map();
    const halfway = new Promise((resolve) => {
      for (let n = 0; n < 2_000; n += 1) {
        cli.socket.emit('message', { sid: session.id, message: { n }, localId: `l-${n}` }, (ack) => {
          acked.set(n, ack.seq);
          if (acked.size === 500) resolve();
        });
      }
    });
    await halfway;
    await cli.waitForReconnect(() => hub.restart());

    const stored = await hub.web('stream').readHistory(session.id);
    assert.deepEqual(stored.map(({ seq }) => seq), stored.map((_, at) => at + 1), 'no gap, nothing twice');
    assert.deepEqual(stored.map(({ content }) => content.n), stored.map((_, at) => at), 'in the order of sending');
    for (const [n, seq] of acked) assert.equal(stored[seq - 1].content.n, n, `message ${n} was acknowledged`);

    const missing = Array.from({ length: 2_000 }, (_, n) => n).filter((n) => !acked.has(n));
    for (const n of missing) cli.socket.emit('message', { sid: session.id, message: { n }, localId: `l-${n}` });
    await cli.emitWithAck('ping', {});
    assert.equal((await cli.sendMessage(session.id, { n: 2_000 })).seq, 2_001);
    const whole = await hub.web('stream').readHistory(session.id);
    assert.deepEqual(whole.map(({ seq, content }) => [seq, content.n]), Array.from({ length: 2_001 }, (_, n) => [n + 1, n]));
  });

  test('that nobody notices still ends what was active when its clock runs out', async (t) => {
    const hub = await startHub();
    t.after(() => hub.stop());
    const { session, cli } = await liveSession(t, hub, { namespace: 'unseen', tag: 'unseen' });
    const lastSign = Date.now();
    await hub.restart();
    assert.equal(cli.socket.connected && cli.socket.active, false, 'the CLI does not come back');
    const feed = await hub.web('unseen').socket({ all: 'true' });
    t.after(() => feed.close());
    assert.equal((await hub.web('unseen').get('/api/sessions')).body.sessions[0].active, true);
    await feed.nextUpdate({ active: false }, 2 * SESSION_MS);
    assert.ok(Date.now() >= lastSign + SESSION_MS - CLOCK_MS, 'not before its time');
    assert.equal((await hub.web('unseen').get(`/api/sessions/${session.id}`)).body.session.active, false);
  });
});
