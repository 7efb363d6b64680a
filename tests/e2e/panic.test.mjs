/**
 * A panic costs one request: whoever waited for the wasm instance gets 503 at once, and sockets go on. The hub here has a
 * trap in front (`lib/trapped.worker.js`).
 */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deferred, withTimeout } from './lib/await.mjs';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** Where pages come from that may call. */
const LISTED = 'https://console.example';

const hub = await startHub({ wrappers: ['trapped.worker.js'], vars: { CORS_ORIGINS: LISTED } });
after(() => hub.stop());

/** Every request here would wait for 50 seconds and more, if nobody told it. */
const AT_ONCE_MS = 10_000;

function assertInterrupted({ status, headers, body }) {
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.deepEqual([status, headers['retry-after'], body], [503, '1', { error: 'The hub was interrupted. Try again.', code: 'hub_unavailable' }]);
}

/** A session with a CLI on each of the ways in and a web client on each kind of channel, all of which keep count. */
async function crowd(t, namespace) {
  const web = hub.web(namespace);
  const { session, cli: bridged } = await liveSession(t, hub, { namespace, tag: namespace, way: 'connect', reconnection: true });
  const direct = await connectCli(t, hub, { namespace, way: 'header', auth: { sessionId: session.id }, reconnection: true });
  const [socket, stream] = [await web.socket({ sessionId: session.id }), await web.sse({ sessionId: session.id })];
  t.after(() => [socket, stream].forEach((feed) => feed.close()));
  await Promise.all([socket.waitForGreeting(), stream.waitForGreeting()]);
  // The local runtime ends the connection of a client that never spoke ten seconds late.
  socket.send('hello');
  const losses = [];
  for (const [name, cli] of Object.entries({ bridged, direct })) cli.socket.on('disconnect', () => losses.push(name));
  return { web, session, bridged, direct, feeds: [socket, stream], losses };
}

/** A message of each CLI is taken, and everybody else hears of it, over the connections that there are. */
async function assertAllGoOn({ session, bridged, direct, feeds, web }) {
  for (const [from, to] of [[bridged, direct], [direct, bridged]]) {
    const text = `after it, ${from.socket.id}`;
    assert.equal((await from.sendMessage(session.id, { text })).ok, true);
    const heard = await to.nextUpdate('new-message');
    assert.equal(heard.message.content.text, text);
    for (const feed of feeds) assert.equal((await feed.nextEvent('message-received', session.id)).message.content.text, text);
  }
  assert.equal((await web.get(`/api/sessions/${session.id}`)).body.session.active, true);
}

describe('a panic', () => {
  for (const where of ['worker', 'object']) {
    test(`in the ${where} costs those who wait a 503, and no socket`, async (t) => {
      const all = await crowd(t, `in-the-${where}`);
      const calls = [deferred(), deferred()];
      let called = 0;
      await all.direct.serve('listSkills', () => {
        calls[called++]?.resolve();
        return new Promise(() => {});
      });
      const skills = `/api/sessions/${all.session.id}/skills`;
      // One who waits for nothing any more must not keep the others from hearing of it.
      const leaving = new AbortController();
      const headers = { authorization: `Bearer ${all.web.token}` };
      const left = assert.rejects(fetch(`${hub.url}${skills}`, { headers, signal: leaving.signal }));
      await withTimeout(calls[0].promise, 'the call to reach the CLI');
      leaving.abort();
      await left;
      const bystander = all.web.get(skills);
      await withTimeout(calls[1].promise, 'the call to reach the CLI');
      const culprit = all.web.get(skills, { headers: { 'x-trap': where } });
      for (const answer of [culprit, bystander]) assertInterrupted(await withTimeout(answer, 'an answer', AT_ONCE_MS));
      await assertAllGoOn(all);
      assert.deepEqual(all.losses, []);
    });
  }

  for (const where of ['worker', 'object']) {
    test(`in the ${where} is told to a page of a listed origin, and to no other`, async () => {
      const asked = async (origin) => {
        const answer = await hub.web('cors').get('/api/sessions', { headers: { 'x-trap': where, origin } });
        assertInterrupted(answer);
        assert.match(answer.headers.vary, /Origin/i);
        return [answer.headers['access-control-allow-origin'], answer.headers['access-control-expose-headers']];
      };
      assert.deepEqual(await asked(LISTED), [LISTED, 'retry-after']);
      assert.deepEqual(await asked('https://elsewhere.example'), [undefined, undefined]);
    });
  }

  for (const { where, trap, path, message, authorize } of [
    { where: 'worker', trap: 'response', path: '/socket.io/?EIO=4&transport=websocket', message: 'The response cannot be created', authorize: false },
    { where: 'object', trap: 'socket', path: '/api/events', message: 'The socket cannot be accepted' },
  ]) {
    test(`that Rust itself makes in the ${where} costs no more, and is logged once, with its message and location`, async (t) => {
      const all = await crowd(t, `unwrapped-in-the-${where}`);
      const panics = () => hub.stderr.all.join('').split('panicked at').length - 1;
      const before = panics();
      assertInterrupted(await all.web.upgrade(path, { authorize, headers: { 'x-trap': trap } }));
      const logged = await hub.stderr.next((text) => text.includes(message), 'the panic in the log');
      assert.match(logged, /panicked at \S+\.rs:\d+:\d+:\n.*Result::unwrap/);
      await assertAllGoOn(all);
      assert.deepEqual(all.losses, []);
      assert.equal(panics() - before, 1);
    });
  }

  test('over a frame costs its sender the socket, and the frame can be sent again', async (t) => {
    const all = await crowd(t, 'frame');
    const message = { sid: all.session.id, message: { text: 'trap', kind: 'trap' }, localId: 'again' };
    await all.direct.waitForReconnect(() => all.direct.socket.emit('message', message));
    assert.deepEqual(all.losses, ['direct']);
    const { seq } = await all.bridged.sendMessage(all.session.id, { text: 'in between' });
    assert.equal(seq, 1, 'nothing came of the frame');
    for (const feed of all.feeds) await feed.nextEvent('message-received', all.session.id);
    await all.direct.nextUpdate('new-message');
    await assertAllGoOn(all);
  });

  test('behind a commit makes everybody come back, for nobody can say who heard of it', async (t) => {
    const all = await crowd(t, 'commit');
    const path = `/api/sessions/${all.session.id}/messages`;
    const body = { text: 'sent twice', localId: 'once' };
    const back = all.bridged.waitForReconnect(() => {});
    await all.direct.waitForReconnect(async () => {
      assertInterrupted(await withTimeout(all.web.post(path, body, { headers: { 'x-trap': 'commit' } }), 'an answer', AT_ONCE_MS));
    });
    await back;
    await Promise.all(all.feeds.map((feed) => feed.waitForEnd('its end')));
    assert.equal((await all.web.post(path, body)).body.message.seq, 1);
    assert.deepEqual((await all.web.readHistory(all.session.id)).map(({ localId }) => localId), ['once']);
  });

  test('while a client is being let in closes its socket, so that it comes back', async () => {
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
