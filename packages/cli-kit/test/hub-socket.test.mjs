/** The connection to the hub: time limits, and errors that end it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HubClient } from '../src/hub-client.mjs';
import { HubSocket } from '../src/hub-socket.mjs';
import { OutageMonitor } from '../src/outage.mjs';
import { FakeHub, TOKEN } from './support/fake-hub.mjs';
import { quietLog } from './support/wait.mjs';

test('while the hub acknowledges nothing, the time limit grows over all connections, and an acknowledgement other than that of a ping resets it', async (t) => {
  const hub = await FakeHub.start();
  const log = quietLog();
  const session = await new HubClient({ hub: hub.url, token: TOKEN }).openSession({ tag: 'a', metadata: {}, agentState: {} });
  const outage = new OutageMonitor({ hub: hub.url, log });
  const auth = { sessionId: session.id, clientType: 'test' };
  const socket = new HubSocket({ hub: hub.url, token: TOKEN, log, outage, auth, ackTimeoutMs: 250, reconnectDelayMs: 1 });
  t.after(() => {
    socket.close();
    return hub.stop();
  });
  const limits = [];
  hub.dropAck = () => limits.length < 4;
  socket.on('connect', () => limits.push(socket.currentAckTimeoutMs));
  socket.connect();
  const send = (localId) => socket.sendUntilAcked('message', { sid: session.id, message: {}, localId });
  const both = Promise.all([send('one'), send('two')]);
  for (let connections = 1; connections < 4; connections += 1) {
    await socket.whenConnected();
    await socket.ping(5000);
    await hub.waitUntil(() => limits.length > connections, 'the next connection');
  }
  await both;
  assert.deepEqual([limits, socket.currentAckTimeoutMs], [[250, 500, 1000, 2000], 250]);
  socket.currentAckTimeoutMs = 40_000;
  socket.reconnect();
  assert.equal(socket.currentAckTimeoutMs, 60_000);
});
