/** Size limits of values that clients send, with a real database and real sockets. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;
const LIMIT = 30 * MIB;
const FRAME_LIMIT = 32 * MIB;
/** More bytes than a row of the database may have. */
const OVER_ROW_LIMIT = 2_000_001;
const TIMEOUT_MS = 60_000;

const hub = await startHub({ after });

/** An object with these members whose JSON has exactly `bytes` bytes. */
function objectOfSize(bytes, members = {}) {
  const overhead = JSON.stringify({ ...members, padding: '' }).length;
  return { ...members, padding: 'x'.repeat(bytes - overhead) };
}

const isAccepted = (ack) => ack.ok === true || ack.result === 'success';
const REQUIRED_METADATA = { path: '/code', host: 'box' };

/** How each kind of value is created, sent and read. */
const VALUES = [
  {
    name: 'a message',
    value: (bytes) => objectOfSize(bytes),
    send: (cli, sid, message) => cli.emitWithAck('message', { sid, message }, TIMEOUT_MS),
    read: async (web, id, { seq }) => {
      const { body } = await web.get(`/cli/sessions/${id}/messages?afterSeq=${seq - 1}&limit=1`);
      return body.messages[0].content;
    },
  },
  {
    name: 'metadata',
    value: (bytes) => objectOfSize(bytes, REQUIRED_METADATA),
    send: (cli, sid, metadata, expectedVersion) => cli.emitWithAck('update-metadata', { sid, expectedVersion, metadata }, TIMEOUT_MS),
    read: async (web, id) => (await web.readSession(id)).metadata,
  },
  {
    name: 'an agent state',
    value: (bytes) => objectOfSize(bytes),
    send: (cli, sid, agentState, expectedVersion) => cli.emitWithAck('update-state', { sid, expectedVersion, agentState }, TIMEOUT_MS),
    read: async (web, id) => (await web.readSession(id)).agentState,
  },
  {
    name: 'a runner state',
    value: (bytes) => objectOfSize(bytes),
    send: (cli, sid, runnerState, expectedVersion) =>
      cli.emitWithAck('machine-update-state', { machineId: `of-${sid}`, expectedVersion, runnerState }, TIMEOUT_MS),
    read: async (web, id) => (await web.get(`/api/machines/of-${id}`)).body.machine.runnerState,
  },
];

for (const tokenIn of /** @type {const} */ (['header', 'connect'])) {
  const socket = tokenIn === 'header' ? 'a direct socket' : 'a bridged socket';

  // The bridge treats all events alike.
  for (const { name, value, send, read } of tokenIn === 'header' ? VALUES : VALUES.slice(0, 1)) {
    test(`${name} over ${socket} is stored up to its limit, and one byte more is refused`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { tag: `${name}-${tokenIn}`, tokenIn });
      await hub.web().registerMachine({ id: `of-${session.id}` });
      let version = 1;
      for (const bytes of [100, OVER_ROW_LIMIT, LIMIT]) {
        const sent = value(bytes);
        const ack = await send(cli, session.id, sent, version);
        assert.ok(isAccepted(ack), `${bytes} bytes: ${JSON.stringify(ack).slice(0, 200)}`);
        version = ack.version;
        assert.deepEqual(await read(hub.web(), session.id, ack), sent, `${bytes} bytes`);
      }
      const refused = await send(cli, session.id, value(LIMIT + 1), version);
      assert.ok(!isAccepted(refused) && refused.code === 'too-large', JSON.stringify(refused).slice(0, 200));
      assert.equal((await cli.sendMessage(session.id, 'after')).ok, true, 'the socket is open');
    });
  }

  test(`an RPC result over ${socket} may fill its frame, and a larger one closes only the CLI's socket`, async (t) => {
    const { session, cli } = await liveSession(t, hub, { tag: `rpc-${tokenIn}`, tokenIn });
    let bytes = 0;
    await cli.serve('listSkills', () => objectOfSize(bytes, { success: true }));
    const call = () => hub.web().get(`/api/sessions/${session.id}/skills`);
    // The result is a string in the packet, so its eight quotes are escaped.
    const overhead = '43/cli,9007199254740991[""]'.length + 8;
    for (bytes of [100, OVER_ROW_LIMIT, 30 * MIB, FRAME_LIMIT - overhead]) {
      const { status, text } = await call();
      assert.deepEqual([status, text.length], [200, bytes]);
    }
    bytes = FRAME_LIMIT;
    const { status, body } = await call();
    assert.deepEqual([status, body.success, /disconnected/.test(body.error)], [200, false, true]);
    const other = await connectCli(t, hub, { tokenIn, auth: { sessionId: session.id } });
    assert.equal((await other.sendMessage(session.id, 'after')).ok, true, 'the hub still works');
  });
}

test('the largest message is sent whole to CLIs, and without content to web clients; a message of 8 MiB is sent whole to all', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'published', tokenIn: 'header' });
  const second = await connectCli(t, hub, { tokenIn: 'header', auth: { sessionId: session.id } });
  const feeds = [await hub.web().openStream({ sessionId: session.id }), await hub.web().openSocket({ sessionId: session.id })];
  t.after(() => feeds.forEach((feed) => feed.close()));
  for (const bytes of [8 * MIB, LIMIT, 100]) {
    const content = objectOfSize(bytes);
    const since = Date.now();
    const { seq, id } = await cli.emitWithAck('message', { sid: session.id, message: content }, TIMEOUT_MS);
    const update = await second.nextUpdate('new-message');
    assert.deepEqual(update.message.content, content);
    // The hub pings after a large update, and closes a socket that gets another large update before its pong.
    if (bytes > 2 * MIB) await second.pings.first((at) => at >= since, 'a ping after the update');
    await second.emitWithAck('ping', null);
    for (const feed of feeds) {
      const { message } = await feed.nextEvent('message-received', session.id);
      assert.deepEqual([message.seq, message.id], [seq, id]);
      if (bytes <= 8 * MIB) assert.deepEqual(message.content, content);
      else assert.deepEqual([message.content, message.contentBytes], [undefined, bytes]);
    }
  }
});

test('a session with a large agent state and metadata can be listed and changed after a restart', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'large', tokenIn: 'header', reconnection: true });
  const web = hub.web();
  const feed = await web.openStream({ sessionId: session.id });
  t.after(() => feed.close());
  const metadata = objectOfSize(5 * MIB, { ...REQUIRED_METADATA, name: 'Large' });
  const agentState = objectOfSize(20 * MIB, { requests: { r: { tool: 'shell', arguments: {} } } });
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, TIMEOUT_MS);
  assert.equal((await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState }, TIMEOUT_MS)).version, 2);
  const { data } = await feed.nextUpdate({ agentStateVersion: 2 });
  assert.deepEqual([data.agentStateBytes, data.agentState], [20 * MIB, undefined]);
  await cli.serve('permission', () => ({ success: true }));
  cli.socket.on('connect', () => cli.socket.emit('rpc-register', { method: 'permission' }));
  await cli.waitForReconnect(() => hub.restart());

  const summary = (await web.get('/api/sessions')).body.sessions.find(({ id }) => id === session.id);
  assert.deepEqual([summary.metadata.name, summary.pendingRequestsCount], ['Large', 1]);
  const stale = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: {} }, TIMEOUT_MS);
  assert.deepEqual([stale.result, stale.version], ['version-mismatch', 2]);
  assert.deepEqual(stale.agentState, agentState);
  assert.equal((await web.post(`/api/sessions/${session.id}/permissions/r/approve`, {})).status, 200);
  assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
  const { session: changed } = (await web.get(`/api/sessions/${session.id}`)).body;
  assert.deepEqual(changed.metadata, { ...metadata, name: 'Renamed' });
  assert.equal(changed.agentState.completedRequests.r.status, 'approved');
  assert.deepEqual([changed.agentState.requests, changed.agentState.padding], [{}, agentState.padding]);
});
