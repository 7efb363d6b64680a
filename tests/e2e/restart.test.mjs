/** After a crash and restart, the hub has all committed data and clients reconnect. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** Tolerance between times that this process and the runtime read. */
const CLOCK_TOLERANCE_MS = 250;
const MESSAGE_COUNT = 300;

/** The session and its messages as a web client reads them, without the time of its last activity. */
async function readAll(web, id) {
  const { activeAt: _, ...session } = await web.readSession(id);
  return { session, messages: await web.readHistory(id) };
}

for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
  test(`a restart of the hub loses no data, and its CLI reconnects (token by ${tokenIn})`, async (t) => {
    const hub = await startHub(t);
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
