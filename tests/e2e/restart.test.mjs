/** After a crash and restart, the hub has all committed data and clients reconnect. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, startHub } from './lib/hub.mjs';

/** How long a session stays active after its last keep-alive. */
const SESSION_TIMEOUT_MS = 30_000;
/** Tolerance between times that this process and the runtime read. */
const CLOCK_TOLERANCE_MS = 250;
const MESSAGE_COUNT = 300;
/** How many tests run at a time: each starts its own runtime twice. */
const CONCURRENCY = 3;

/** Where a CLI sends its token: in CONNECT, over the worker's bridge, or in a header, directly to the object. */
const TOKEN_LOCATIONS = /** @type {const} */ (['connect', 'header']);

/** The session and its messages as a web client reads them, without the time of its last activity. */
async function readAll(web, id) {
  const { activeAt: _, ...session } = await web.readSession(id);
  return { session, messages: await web.readHistory(id) };
}

describe('a restart of the hub', { concurrency: CONCURRENCY }, () => {
  for (const tokenIn of TOKEN_LOCATIONS) {
    test(`loses no data, and its CLI reconnects (token by ${tokenIn})`, async (t) => {
      const hub = await startHub();
      t.after(() => hub.stop());
      const web = hub.web('restarted');
      const jwt = (await web.post('/api/auth', { accessToken: hub.token('restarted') })).body.token;

      // A session with every kind of data, another session and a machine.
      const { session, cli } = await liveSession(t, hub, {
        namespace: 'restarted',
        tag: '/code/restarted',
        tokenIn,
        reconnection: true,
        isSilent: true,
      });
      const metadata = { ...session.metadata, name: 'Named', opaque: { zeta: 1, alpha: 1.5 } };
      await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata });
      const agentState = { requests: { r1: { tool: 'shell', arguments: {} } } };
      await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState });
      await web.post(`/api/sessions/${session.id}/messages`, { text: 'from the web', localId: 'w-1' });
      await Promise.all(Array.from({ length: MESSAGE_COUNT }, (_, n) => cli.sendMessage(session.id, { n }, `l-${n}`)));
      const idle = await web.openSession({ tag: '/code/idle' });
      const machine = await web.registerMachine({ id: 'm-1', runnerState: { status: 'running' } });
      await cli.emitWithAck('machine-alive', { machineId: 'm-1', time: Date.now() });
      await cli.serve('listSkills', () => ({ success: true, skills: [] }));
      await cli.keepAlive(session.id, { thinking: true, mode: 'remote', permissionMode: 'plan', modelMode: 'model_fast' });

      const before = await readAll(web, session.id);
      const [list, machines] = [await web.get('/api/sessions'), await web.get('/api/machines')];
      // A CLI registers its methods on every connection.
      cli.socket.on('connect', () => cli.socket.emit('rpc-register', { method: 'listSkills' }));
      const restartedAt = Date.now();
      await cli.waitForReconnect(() => hub.restart());

      assert.deepEqual(await readAll(web, session.id), before);
      assert.deepEqual([before.session.active, before.session.thinking, before.session.permissionMode], [true, true, 'plan']);
      // Connecting is activity.
      const reconnectedList = (await web.get('/api/sessions')).body;
      const listed = reconnectedList.sessions.find(({ id }) => id === session.id);
      assert.ok(
        listed.activeAt >= restartedAt - CLOCK_TOLERANCE_MS && listed.activeAt <= Date.now() + CLOCK_TOLERANCE_MS,
        `${listed.activeAt}`,
      );
      listed.activeAt = list.body.sessions.find(({ id }) => id === session.id).activeAt;
      assert.deepEqual(reconnectedList, list.body);
      assert.deepEqual((await web.get('/api/machines')).body, machines.body);
      assert.equal((await web.openSession({ tag: '/code/restarted' })).id, session.id, 'the tag still belongs to the session');
      assert.equal((await web.openSession({ tag: '/code/idle' })).id, idle.id);
      assert.equal((await web.registerMachine({ id: machine.id })).createdAt, machine.createdAt);
      assert.equal((await hub.web('restarted', jwt).get('/api/sessions')).status, 200, 'a web client’s token is still valid');

      // A message that is sent again is not stored twice, and a new message continues the sequence.
      const repeated = await cli.sendMessage(session.id, { n: 0 }, 'l-0');
      assert.equal(repeated.id, before.messages.find(({ localId }) => localId === 'l-0').id);
      assert.equal((await cli.sendMessage(session.id, { n: 'new' })).seq, MESSAGE_COUNT + 2);
      const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'still active' });
      assert.equal(sent.body.message?.seq, MESSAGE_COUNT + 3, sent.text);
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'from the web');
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'still active');
      assert.deepEqual((await web.get(`/api/sessions/${session.id}/skills`)).body, { success: true, skills: [] });
      const stale = await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata });
      assert.deepEqual([stale.result, stale.version, stale.metadata], ['version-mismatch', 2, metadata]);
    });
  }

  test('during a stream of messages loses no acknowledged message, and the other messages can be sent again', async (t) => {
    const hub = await startHub();
    t.after(() => hub.stop());
    const { session, cli } = await liveSession(t, hub, { namespace: 'stream', tag: 'stream', tokenIn: 'header', reconnection: true });
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
    assert.deepEqual(
      stored.map(({ seq }) => seq),
      stored.map((_, index) => index + 1),
      'no gap, no repetition',
    );
    assert.deepEqual(
      stored.map(({ content }) => content.n),
      stored.map((_, index) => index),
      'in the order of sending',
    );
    for (const [n, seq] of acked) assert.equal(stored[seq - 1].content.n, n, `message ${n} was acknowledged`);

    const missing = Array.from({ length: 2_000 }, (_, n) => n).filter((n) => !acked.has(n));
    for (const n of missing) cli.socket.emit('message', { sid: session.id, message: { n }, localId: `l-${n}` });
    await cli.emitWithAck('ping', {});
    assert.equal((await cli.sendMessage(session.id, { n: 2_000 })).seq, 2_001);
    const history = await hub.web('stream').readHistory(session.id);
    assert.deepEqual(
      history.map(({ seq, content }) => [seq, content.n]),
      Array.from({ length: 2_001 }, (_, n) => [n + 1, n]),
    );
  });

  test('ends a session at its timeout if no CLI reconnects', async (t) => {
    const hub = await startHub({ wrappers: CLOCK_WORKER });
    t.after(() => hub.stop());
    const { session, cli } = await liveSession(t, hub, { namespace: 'timeout', tag: 'timeout', isSilent: true });
    await hub.restart();
    assert.equal(cli.socket.connected && cli.socket.active, false, 'the CLI does not reconnect');
    const feed = await hub.web('timeout').openSocket({ all: 'true' });
    t.after(() => feed.close());
    assert.equal((await hub.web('timeout').get('/api/sessions')).body.sessions[0].active, true);
    await hub.advance('timeout', SESSION_TIMEOUT_MS);
    await feed.nextUpdate({ active: false });
    assert.equal((await hub.web('timeout').readSession(session.id)).active, false);
  });
});
