/** How large what clients send may be, on the real database and the real sockets. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connectCli, liveSession } from './lib/cli.mjs';
import { deferred, withTimeout } from './lib/await.mjs';
import { startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;
const LARGEST = 30 * MIB;
const LARGEST_FRAME = 32 * MIB;
/** Larger than a row of the database. */
const ROW = 2_000_001;
const TIMEOUT_MS = 60_000;
/**
 * How long a client may take to see that its connection is closed. The runtime sends a close frame at once, but keeps the
 * connection of a socket that failed until it collects the socket; the client (`ws`) gives up by itself 30 s after the frame.
 */
const CLOSING_MS = 45_000;

/** @type {import('./lib/hub.mjs').Hub} */
let hub;
before(async () => {
  hub = await startHub();
});
after(() => hub.stop());

/** An object of exactly so many bytes of JSON, with these members first. */
function sized(bytes, members = {}) {
  const around = JSON.stringify({ ...members, filling: '' }).length;
  return { ...members, filling: 'x'.repeat(bytes - around) };
}

const isTaken = (ack) => ack.ok === true || ack.result === 'success';
const place = { path: '/code', host: 'box' };

const KINDS = [
  {
    name: 'a message',
    sizes: [100, ROW, LARGEST],
    limit: LARGEST,
    value: (bytes) => sized(bytes),
    send: (cli, sid, message) => cli.emitWithAck('message', { sid, message }, TIMEOUT_MS),
    read: async (web, id, { seq }) => {
      const { body } = await web.get(`/cli/sessions/${id}/messages?afterSeq=${seq - 1}&limit=1`);
      return body.messages[0].content;
    },
  },
  {
    name: 'metadata',
    sizes: [100, ROW, LARGEST],
    limit: LARGEST,
    value: (bytes) => sized(bytes, place),
    send: (cli, sid, metadata, expectedVersion) => cli.emitWithAck('update-metadata', { sid, expectedVersion, metadata }, TIMEOUT_MS),
    read: async (web, id) => (await web.get(`/api/sessions/${id}`)).body.session.metadata,
  },
  {
    name: 'an agent state',
    sizes: [100, ROW, LARGEST],
    limit: LARGEST,
    value: (bytes) => sized(bytes),
    send: (cli, sid, agentState, expectedVersion) => cli.emitWithAck('update-state', { sid, expectedVersion, agentState }, TIMEOUT_MS),
    read: async (web, id) => (await web.get(`/api/sessions/${id}`)).body.session.agentState,
  },
  {
    name: 'a runner state',
    sizes: [100, ROW, LARGEST],
    limit: LARGEST,
    value: (bytes) => sized(bytes),
    send: (cli, sid, runnerState, expectedVersion) =>
      cli.emitWithAck('machine-update-state', { machineId: `of-${sid}`, expectedVersion, runnerState }, TIMEOUT_MS),
    read: async (web, id) => (await web.get(`/api/machines/of-${id}`)).body.machine.runnerState,
  },
];

for (const way of ['header', 'connect']) {
  const socket = way === 'header' ? 'a direct socket' : 'a bridged socket';

  for (const { name, sizes, limit, value, send, read } of KINDS) {
    test(`${name} over ${socket} is kept whole up to its limit, and one byte more is refused`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { tag: `${name}-${way}`, way });
      await hub.web().registerMachine({ id: `of-${session.id}` });
      let version = 1;
      for (const bytes of sizes) {
        const sent = value(bytes);
        const ack = await send(cli, session.id, sent, version);
        assert.ok(isTaken(ack), `${bytes} bytes: ${JSON.stringify(ack).slice(0, 200)}`);
        version = ack.version;
        assert.deepEqual(await read(hub.web(), session.id, ack), sent, `${bytes} bytes`);
      }
      const refused = await send(cli, session.id, value(limit + 1), version);
      assert.ok(!isTaken(refused) && refused.code === 'too-large', JSON.stringify(refused).slice(0, 200));
      assert.equal((await cli.sendMessage(session.id, 'after')).ok, true, 'the socket lives on');
    });
  }

  test(`a result of an RPC over ${socket} may fill its frame, and a larger one costs the CLI its socket alone`, async (t) => {
    const { session, cli } = await liveSession(t, hub, { tag: `rpc-${way}`, way, reconnection: true });
    let bytes = 0;
    await cli.serve('listSkills', () => sized(bytes, { success: true }));
    const ask = () => hub.web().get(`/api/sessions/${session.id}/skills`);
    // Quotes inside of a string are escaped: eight of them, and the packet around.
    const around = '43/cli,9007199254740991[""]'.length + 8;
    for (bytes of [100, ROW, 30 * MIB, LARGEST_FRAME - around]) {
      const { status, text } = await ask();
      assert.deepEqual([status, text.length], [200, bytes]);
    }
    const closed = deferred();
    cli.socket.io.engine.transport.ws.addEventListener('close', ({ code }) => closed.resolve(code));
    bytes = LARGEST_FRAME;
    await cli.waitForReconnect(async () => {
      const { status, body } = await ask();
      assert.deepEqual([status, body.success, /disconnected/.test(body.error)], [200, false, true]);
    }, CLOSING_MS);
    // The runtime closes in the middle of the frame. The reset of the connection can overtake its close frame: then the client
    // sees 1006, for a connection that broke.
    const code = await withTimeout(closed.promise, 'the socket to be closed', CLOSING_MS);
    assert.ok([1006, 1009].includes(code), `${code}`);
    assert.equal((await cli.sendMessage(session.id, 'after')).ok, true, 'the hub lives on');
  });
}

test('the largest message reaches another CLI whole, and web clients by its id; one of 8 MiB reaches all whole', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'heard', way: 'header' });
  const second = await connectCli(t, hub, { way: 'header', auth: { sessionId: session.id } });
  const feeds = [await hub.web().sse({ sessionId: session.id }), await hub.web().socket({ sessionId: session.id })];
  t.after(() => feeds.forEach((feed) => feed.close()));
  for (const bytes of [8 * MIB, LARGEST, 100]) {
    const content = sized(bytes);
    const since = Date.now();
    const { seq, id } = await cli.emitWithAck('message', { sid: session.id, message: content }, TIMEOUT_MS);
    const update = await second.nextUpdate('new-message');
    assert.deepEqual(update.message.content, content);
    // The hub asks whether it was read, and closes on who is sent the largest message before the answer to that.
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

test('a session with a large state and large metadata is listed, answered, renamed and changed after a restart', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'large', way: 'header', reconnection: true });
  const web = hub.web();
  const feed = await web.sse({ sessionId: session.id });
  t.after(() => feed.close());
  const metadata = sized(5 * MIB, { ...place, name: 'Large' });
  const agentState = sized(20 * MIB, { requests: { r: { tool: 'shell', arguments: {} } } });
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, TIMEOUT_MS);
  assert.equal((await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState }, TIMEOUT_MS)).version, 2);
  const told = await feed.nextUpdate({ agentStateVersion: 2 });
  assert.deepEqual([told.data.agentStateBytes, told.data.agentState], [20 * MIB, undefined]);
  await cli.serve('permission', () => ({ success: true }));
  cli.socket.on('connect', () => cli.socket.emit('rpc-register', { method: 'permission' }));
  await cli.waitForReconnect(() => hub.restart());

  const line = (await web.get('/api/sessions')).body.sessions.find(({ id }) => id === session.id);
  assert.deepEqual([line.metadata.name, line.pendingRequestsCount], ['Large', 1]);
  const stale = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: {} }, TIMEOUT_MS);
  assert.deepEqual([stale.result, stale.version], ['version-mismatch', 2]);
  assert.deepEqual(stale.agentState, agentState);
  assert.equal((await web.post(`/api/sessions/${session.id}/permissions/r/approve`, {})).status, 200);
  assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
  const { session: shown } = (await web.get(`/api/sessions/${session.id}`)).body;
  assert.deepEqual(shown.metadata, { ...metadata, name: 'Renamed' });
  assert.equal(shown.agentState.completedRequests.r.status, 'approved');
  assert.deepEqual([shown.agentState.requests, shown.agentState.filling], [{}, agentState.filling]);
});
