/**
 * After a panic, waiting requests fail with 503 at once, and sockets stay connected. `lib/trapped.worker.js` wraps the hub and causes
 * the panics.
 */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { deferred, eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const ALLOWED_ORIGIN = 'https://console.example';

const hub = await startHub({ after }, { wrappers: ['trapped.worker.js'], vars: { CORS_ORIGINS: ALLOWED_ORIGIN } });

/** Without the 503, each request here would wait for at least 50 s. */
const AT_ONCE_MS = 10_000;

function assertInterrupted({ status, headers, body }) {
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.deepEqual(
    [status, headers['retry-after'], body],
    [503, '1', { error: 'The hub was interrupted. Try again.', code: 'hub_unavailable' }],
  );
}

/**
 * Connects a session with a CLI on each kind of connection, and with a web client on each transport. `losses` has the names of CLIs
 * that disconnected.
 */
async function connectAll(t, namespace) {
  const web = hub.web(namespace);
  const { session, cli: bridged } = await liveSession(t, hub, { namespace, tag: namespace, tokenIn: 'connect', reconnection: true });
  const direct = await connectCli(t, hub, { namespace, tokenIn: 'header', auth: { sessionId: session.id }, reconnection: true });
  const [socket, stream] = [await web.openSocket({ sessionId: session.id }), await web.openStream({ sessionId: session.id })];
  t.after(() => [socket, stream].forEach((feed) => feed.close()));
  await Promise.all([socket.waitForGreeting(), stream.waitForGreeting()]);
  // If a client never sent anything, the local runtime closes its socket ten seconds late.
  socket.send('hello');
  const losses = [];
  for (const [name, cli] of Object.entries({ bridged, direct })) cli.socket.on('disconnect', () => losses.push(name));
  return { web, session, bridged, direct, feeds: [socket, stream], losses };
}

/** Checks that a message of each CLI is stored, and reaches all other clients over their open connections. */
async function assertAllConnected({ session, bridged, direct, feeds, web }) {
  for (const [from, to] of [
    [bridged, direct],
    [direct, bridged],
  ]) {
    const text = `after the panic, ${from.socket.id}`;
    assert.equal((await from.sendMessage(session.id, { text })).ok, true);
    const update = await to.nextUpdate('new-message');
    assert.equal(update.message.content.text, text);
    for (const feed of feeds) assert.equal((await feed.nextEvent('message-received', session.id)).message.content.text, text);
  }
  assert.equal((await web.readSession(session.id)).active, true);
}

describe('a panic', () => {
  for (const where of ['worker', 'object']) {
    test(`in the ${where} fails waiting requests with 503 and closes no socket`, async (t) => {
      const clients = await connectAll(t, `in-the-${where}`);
      const calls = [deferred(), deferred()];
      let called = 0;
      await clients.direct.serve('listSkills', () => {
        calls[called++]?.resolve();
        return new Promise(() => {});
      });
      const skills = `/api/sessions/${clients.session.id}/skills`;
      // An aborted request must not prevent the 503 of the other requests.
      const controller = new AbortController();
      const headers = { authorization: `Bearer ${clients.web.token}` };
      const aborted = assert.rejects(fetch(`${hub.url}${skills}`, { headers, signal: controller.signal }));
      await withTimeout(calls[0].promise, 'the call to reach the CLI');
      controller.abort();
      await aborted;
      const waiting = clients.web.get(skills);
      await withTimeout(calls[1].promise, 'the call to reach the CLI');
      const panicking = clients.web.get(skills, { headers: { 'x-trap': where } });
      for (const response of [panicking, waiting]) assertInterrupted(await withTimeout(response, 'a response', AT_ONCE_MS));
      await assertAllConnected(clients);
      assert.deepEqual(clients.losses, []);
    });
  }

  for (const where of ['worker', 'object']) {
    test(`in the ${where} has CORS headers in its response for an allowed origin only`, async () => {
      const corsHeaders = async (origin) => {
        const response = await hub.web('cors').get('/api/sessions', { headers: { 'x-trap': where, origin } });
        assertInterrupted(response);
        assert.match(response.headers.vary, /Origin/i);
        return [response.headers['access-control-allow-origin'], response.headers['access-control-expose-headers']];
      };
      assert.deepEqual(await corsHeaders(ALLOWED_ORIGIN), [ALLOWED_ORIGIN, 'retry-after, server-timing, x-request-id']);
      assert.deepEqual(await corsHeaders('https://elsewhere.example'), [undefined, undefined]);
    });
  }

  for (const { where, trap, path, authorize } of [
    { where: 'worker', trap: 'response', path: '/socket.io/?EIO=4&transport=websocket', authorize: false },
    { where: 'object', trap: 'object-response', path: '/api/events' },
  ]) {
    test(`of Rust code in the ${where} closes no other socket, and is logged once with its message and location`, async (t) => {
      const clients = await connectAll(t, `unwrapped-in-the-${where}`);
      const countPanics = () => hub.stderr.all.join('').split('panicked at').length - 1;
      const before = countPanics();
      assertInterrupted(await clients.web.upgrade(path, { authorize, headers: { 'x-trap': trap } }));
      const logged = await hub.stderr.next((text) => text.includes('The response cannot be created'), 'the panic in the log');
      assert.match(logged, /panicked at \S+\.rs:\d+:\d+:\n.*Result::unwrap/);
      await assertAllConnected(clients);
      assert.deepEqual(clients.losses, []);
      assert.equal(countPanics() - before, 1);
      assert.ok(hub.logLines().some(({ event, level }) => event === 'instance-lost' && level === 'error'));
    });
  }

  test('does not happen when the platform refuses a socket: the upgrade is answered with 503, and no socket is closed', async (t) => {
    const clients = await connectAll(t, 'refused');
    const countPanics = () => hub.stderr.all.join('').split('panicked at').length - 1;
    const before = countPanics();
    for (const path of ['/api/events', '/socket.io/?EIO=4&transport=websocket']) {
      const { status, headers, body } = await clients.web.upgrade(path, { headers: { 'x-trap': 'socket' } });
      const error = 'Too many sockets are open or opening at once. Try again in a few seconds.';
      assert.deepEqual([status, headers['retry-after'], body], [503, '1', { error, code: 'hub_unavailable' }]);
    }
    await assertAllConnected(clients);
    assert.deepEqual(clients.losses, []);
    assert.equal(countPanics() - before, 0);
  });

  test('on a frame closes its sender’s socket, and later frames work', async (t) => {
    const clients = await connectAll(t, 'frame');
    const message = { sid: clients.session.id, message: { text: 'trap', kind: 'trap' }, localId: 'again' };
    await clients.direct.waitForReconnect(() => clients.direct.socket.emit('message', message));
    assert.deepEqual(clients.losses, ['direct']);
    const { seq } = await clients.bridged.sendMessage(clients.session.id, { text: 'in between' });
    assert.equal(seq, 1, 'the frame was not stored');
    for (const feed of clients.feeds) await feed.nextEvent('message-received', clients.session.id);
    await clients.direct.nextUpdate('new-message');
    await assertAllConnected(clients);
  });

  test('after a commit closes all sockets, because some clients may have missed the change', async (t) => {
    const clients = await connectAll(t, 'commit');
    const path = `/api/sessions/${clients.session.id}/messages`;
    const body = { text: 'sent twice', localId: 'once' };
    const reconnected = clients.bridged.waitForReconnect(() => {});
    await clients.direct.waitForReconnect(async () => {
      assertInterrupted(await withTimeout(clients.web.post(path, body, { headers: { 'x-trap': 'commit' } }), 'a response', AT_ONCE_MS));
    });
    await reconnected;
    await Promise.all(clients.feeds.map((feed) => feed.waitForEnd('its end')));
    assert.equal((await clients.web.post(path, body)).body.message.seq, 1);
    assert.deepEqual(pluck(await clients.web.readHistory(clients.session.id), 'localId'), ['once']);
  });

  test('before a registration is stored in the attachment of its socket closes all sockets, and CLIs register again', async (t) => {
    const clients = await connectAll(t, 'registration');
    const reconnected = clients.bridged.waitForReconnect(() => {});
    await clients.direct.waitForReconnect(() => clients.direct.socket.emit('rpc-register', { method: 'trap-timer' }));
    await reconnected;
    await Promise.all(clients.feeds.map((feed) => feed.waitForEnd('its end')));
    await clients.direct.serve('listSkills', () => ({ success: true, skills: [] }));
    assert.equal((await clients.web.get(`/api/sessions/${clients.session.id}/skills`)).body.success, true);
  });

  test('closes the socket of a client that is still connecting', async () => {
    const socket = new WebSocket(`${hub.url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`);
    const opened = deferred();
    const closed = deferred();
    socket.onmessage = () => opened.resolve();
    socket.onclose = ({ code }) => closed.resolve(code);
    await withTimeout(opened.promise, 'the greeting');
    assertInterrupted(await hub.web('opening').get('/api/sessions', { headers: { 'x-trap': 'worker' } }));
    assert.equal(await withTimeout(closed.promise, 'the socket to be closed', AT_ONCE_MS), 1012);
  });
});

describe('a fault of the platform', () => {
  const upgrade = '/socket.io/?EIO=4&transport=websocket';
  const lineOf = (event) => eventually(() => hub.logLines().find((line) => line.event === event), `the line ${event}`);

  test('at the upgrade of a CLI is answered with 503, and logged', async () => {
    assertInterrupted(await hub.web('fault').upgrade(upgrade, { authorize: false, headers: { 'x-trap': 'socket.accept' } }));
    const { level, error } = await lineOf('request-interrupted');
    assert.deepEqual([level, /fails at accept/.test(error)], ['error', true]);
  });

  test('while a CLI connects closes its socket, and is logged', async () => {
    const socket = new WebSocket(
      `${hub.url.replace('http', 'ws')}${upgrade}`,
      /** @type {any} */ ({ headers: { 'x-trap': 'socket.close' } }),
    );
    const closed = deferred();
    // The hub closes the socket of a client that sends a binary frame.
    socket.onmessage = () => socket.send(new Uint8Array([1]));
    socket.onclose = ({ code, reason }) => closed.resolve([code, reason]);
    assert.deepEqual(await withTimeout(closed.promise, 'the socket to be closed'), [1011, 'The hub was interrupted. Reconnect.']);
    const { level, error } = await lineOf('socket-failed');
    assert.deepEqual([level, /fails at close/.test(error)], ['error', true]);
  });

  test('at a write to the storage of an object fails no request, and is logged', async () => {
    assert.equal((await hub.web('full').get('/api/sessions', { headers: { 'x-trap': 'storage' } })).status, 200);
    const { level, error } = await lineOf('storage-failed');
    assert.deepEqual([level, /SQLITE_FULL/.test(error)], ['error', true]);
  });
});
