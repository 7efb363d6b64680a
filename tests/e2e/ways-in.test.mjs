/** How a CLI's socket finds its namespace: four ways in with the same rules behind each, and who is kept out. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { Recorder, deferred, eventually, withTimeout } from './lib/await.mjs';
import { Cli, connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const SOCKET = '/socket.io/?EIO=4&transport=websocket';
const FOREIGN = 'https://evil.example';
const LISTED = 'https://console.example';

const hub = await startHub({ vars: { CORS_ORIGINS: LISTED } });
const hostHub = await startHub({ vars: { NAMESPACE_ROUTING: 'host' } });
const singleHub = await startHub({ vars: { NAMESPACE_ROUTING: 'single:solo' } });
after(() => Promise.all([hub.stop(), hostHub.stop(), singleHub.stop()]));

/** A hub, and the options of a CLI that takes this way into the namespace. */
const WAYS = {
  'the token in CONNECT, which the worker reads first': { on: hub, namespace: 'team', way: 'connect' },
  'the token in a header of the upgrade': { on: hub, namespace: 'team', way: 'header' },
  'the token in the query of the upgrade': { on: hub, namespace: 'team', way: 'query' },
  'the host name, with the token in CONNECT': { on: hostHub, namespace: 'team', way: 'connect', label: 'team' },
  'the host name, with the token in a header': { on: hostHub, namespace: 'team', way: 'header', label: 'team' },
  'a hub of one namespace, with the token in CONNECT': { on: singleHub, namespace: 'solo', way: 'connect' },
  'a hub of one namespace, with the token in a header': { on: singleHub, namespace: 'solo', way: 'header' },
};

/** A socket that speaks the wire format itself, for what the official client never does. */
async function rawSocket(t, on, { headers = {}, query = '' } = {}) {
  const startedAt = Date.now();
  const socket = new WebSocket(`${on.url.replace(/^http/, 'ws')}${SOCKET}${query}`, { headers });
  const frames = new Recorder('the frames of the raw socket');
  const closed = deferred();
  socket.onclose = ({ code, reason }) => {
    frames.end(`the socket was closed with ${code} ${reason}`);
    closed.resolve({ code, reason });
  };
  const opened = new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error('The socket was refused.'));
  });
  socket.onmessage = ({ data }) => frames.push(data);
  t.after(() => socket.close());
  await withTimeout(opened, 'the raw socket to open');
  return {
    frames,
    /** Before the hub opened it. */
    startedAt,
    send: (data) => socket.send(data),
    // The local runtime leaves the TCP connection open for a while after the close frame, which is what counts.
    closing: (what) => eventually(() => socket.readyState >= WebSocket.CLOSING, what, 45_000),
    /** The code and the reason of the hub's close frame. */
    closed: (what) => withTimeout(closed.promise, what, 45_000),
  };
}

/** How the hub refuses this CLI: the message of its CONNECT_ERROR. */
async function refusal(t, on, options) {
  const cli = new Cli(on, options);
  t.after(() => cli.close());
  const error = await cli.connect().then(
    () => assert.fail('The hub let the CLI in.'),
    (refused) => refused,
  );
  return error.message;
}

describe('every way in', () => {
  for (const [name, { on, ...options }] of Object.entries(WAYS)) {
    test(`${name} leads to the namespace, where messages and calls pass both ways`, async (t) => {
      const { session, cli } = await liveSession(t, on, { tag: `way: ${name}`, ...options });
      assert.equal(session.namespace, options.namespace);

      const ack = await cli.sendMessage(session.id, { role: 'agent', content: name });
      assert.deepEqual([ack.ok, ack.seq], [true, 1]);

      const web = on.web(options.namespace);
      const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'hello' });
      assert.equal(sent.status, 200, sent.text);
      const { message } = await cli.nextUpdate('new-message');
      assert.deepEqual([message.seq, message.content.content.text], [2, 'hello']);

      await cli.serve('listSkills', () => ({ success: true, skills: [] }));
      const skills = await web.get(`/api/sessions/${session.id}/skills`);
      assert.deepEqual(skills.body, { success: true, skills: [] });
    });

    test(`${name} does not help a wrong token`, async (t) => {
      assert.equal(await refusal(t, on, { ...options, token: 'wrong' }), 'Invalid token');
    });

    test(`${name} does not help a client that names another namespace than its token does`, async (t) => {
      assert.match(await refusal(t, on, { ...options, auth: { namespace: 'other' } }), /^Invalid namespace/);
    });
  }

  for (const [name, { on, namespace, label }] of Object.entries({
    'the host name': { on: hostHub, namespace: 'other', label: 'team' },
    'a hub of one namespace': { on: singleHub, namespace: 'other' },
  })) {
    for (const way of ['connect', 'header']) {
      test(`${name} does not let in a good token of another namespace (${way})`, async (t) => {
        assert.match(await refusal(t, on, { namespace, label, way }), /^Invalid token/);
      });
    }
  }
});

describe('CONNECT', () => {
  test('may name the namespace that its token is for', async (t) => {
    const cli = await connectCli(t, hub, { namespace: 'team', auth: { namespace: 'team', clientType: 'test' } });
    assert.equal(cli.socket.connected, true);
  });

  test('may leave the token out only when it came with the upgrade', async (t) => {
    const headers = { authorization: `Bearer ${hub.token('team')}` };
    const known = await rawSocket(t, hub, { headers });
    await known.frames.next((frame) => frame.startsWith('0{'), 'the open packet');
    known.send('40/cli,');
    await known.frames.next((frame) => frame.startsWith('40/cli,{"sid"'), 'CONNECT to be answered');

    const unknown = await rawSocket(t, hub);
    unknown.send('40/cli,');
    assert.equal(await unknown.frames.next((frame) => frame.startsWith('44'), 'a refusal'), '44/cli,{"message":"Invalid token"}');
  });

  test('may be tried again with a better token on the same socket', async (t) => {
    const { frames, send } = await rawSocket(t, hub);
    send('40/cli,{"token":"wrong"}');
    await frames.next((frame) => frame.startsWith('44/cli,'), 'a refusal');
    send(`40/cli,${JSON.stringify({ token: hub.token('team') })}`);
    await frames.next((frame) => frame.startsWith('40/cli,'), 'CONNECT to be answered');
  });

  test('with two tokens for different namespaces is refused', async (t) => {
    const options = { namespace: 'team', way: 'header', auth: { token: hub.token('other') } };
    assert.match(await refusal(t, hub, options), /^Invalid token/);
  });

  test('to any other Socket.IO namespace than /cli is refused', async (t) => {
    for (const socketNamespace of ['', '/web', '/cli2']) {
      for (const way of ['connect', 'header']) {
        assert.equal(await refusal(t, hub, { way, socketNamespace }), 'Invalid namespace', `${socketNamespace} ${way}`);
      }
    }
  });

  test('with a session that does not exist, or is not its own, connects and tells so in an error event', async (t) => {
    const foreign = await hub.web('other').openSession({ tag: 'not yours' });
    for (const [sessionId, code] of [
      ['no-such-session', 'not-found'],
      [foreign.id, 'access-denied'],
    ]) {
      const cli = await connectCli(t, hub, { namespace: 'team', auth: { sessionId } });
      const error = await cli.nextError();
      assert.deepEqual([error.code, error.scope, error.id], [code, 'session', sessionId]);
      assert.equal(typeof error.message, 'string');
    }
    const cli = await connectCli(t, hub, { namespace: 'team', auth: { machineId: 'no-such-machine' } });
    const error = await cli.nextError();
    assert.deepEqual([error.code, error.scope, error.id], ['not-found', 'machine', 'no-such-machine']);
  });
});

/** Where a socket without a token waits for its CONNECT. */
const WAITING = { 'in the worker': hub, 'in the object': singleHub };

describe('a socket without a token', { concurrency: true }, () => {
  for (const [where, on] of Object.entries(WAITING)) {
    const token = on === hub ? hub.token('team') : singleHub.token('solo');

    test(`that sends a large frame is closed unread (${where})`, async (t) => {
      const { frames, send, closed } = await rawSocket(t, on);
      send(`40/cli,${JSON.stringify({ token, padding: 'x'.repeat(16 * 1024) })}`);
      const { code, reason } = await closed('the socket to be closed');
      assert.deepEqual([code, reason], [1009, 'A frame before CONNECT is answered may have at most 16 KiB']);
      assert.deepEqual(frames.all.filter((frame) => !frame.startsWith('0{')), []);
    });

    test(`has three frames refused and is closed then (${where})`, async (t) => {
      const { frames, send, closed } = await rawSocket(t, on);
      for (const wrong of ['40/cli,{"token":"wrong"}', '42/cli,["ping"]', new Uint8Array([1, 2, 3])]) {
        send(wrong);
        await frames.next((frame) => frame.startsWith('44/cli,'), 'a refusal');
      }
      const { code, reason } = await closed('the socket to be closed');
      assert.equal(code, 1008);
      assert.match(reason, /CONNECT/);
    });

    test(`may ping sixteen times and is closed then (${where})`, async (t) => {
      const { frames, send, closed } = await rawSocket(t, on);
      for (let ping = 0; ping < 17; ping += 1) send(`2${ping}`);
      const { code, reason } = await closed('the socket to be closed');
      assert.equal(code, 1008);
      assert.match(reason, /CONNECT/);
      const pongs = frames.all.filter((frame) => frame.startsWith('3'));
      assert.deepEqual(pongs, Array.from({ length: 16 }, (_, ping) => `3${ping}`));
    });
  }

  test('may leave before it connects', async (t) => {
    const { send, closed } = await rawSocket(t, hub);
    send('1');
    assert.equal((await closed('the socket to be closed')).code, 1000);
  });

  test('that is cut is no reason for the runtime to complain', async (t) => {
    const own = await startHub();
    t.after(() => own.stop());
    for (let cut = 0; cut < 10; cut += 1) {
      assert.equal((await own.web().upgrade(SOCKET, { authorize: false })).status, 101, 'cut as soon as it is open');
    }
    // Whatever becomes of them has happened when somebody else has come.
    await (await connectCli(t, own)).emitWithAck('ping', {});
    assert.deepEqual(own.stderr.all, []);
  });
});

describe('binary data', () => {
  for (const way of ['connect', 'header']) {
    test(`is refused with words, and the socket lives on (${way})`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'binary', tag: `binary ${way}`, way });
      const ack = await cli.sendMessage(session.id, Buffer.from('bytes'));
      assert.deepEqual([ack.ok, ack.code], [false, 'binary-unsupported']);
      assert.equal((await cli.nextError()).code, 'binary-unsupported', 'for the frame that follows it');
      assert.equal((await cli.sendMessage(session.id, 'text')).ok, true);
    });
  }
});

describe('the upgrade', () => {
  test('is needed: polling is refused with a reason', async (t) => {
    const answer = await hub.web().get('/socket.io/?EIO=4&transport=polling');
    assert.equal(answer.status, 400);
    assert.match(answer.body.error, /websocket/i);
    assert.match(answer.body.code, /^[a-z_]+$/);
    await refusal(t, hub, { transports: ['polling'] });
    assert.equal((await hub.web().get(SOCKET)).status, 400, 'a plain request');
  });

  test('of another protocol version than Engine.IO 4 is refused', async () => {
    assert.equal((await hub.web().upgrade('/socket.io/?EIO=3&transport=websocket')).status, 400);
  });

  test('from a page of a foreign origin is refused, for CLIs and for events', async () => {
    const web = hub.web('team');
    for (const place of [SOCKET, `/api/events?token=${encodeURIComponent(web.token)}`]) {
      for (const authorize of [true, false]) {
        const foreign = await web.upgrade(place, { authorize, headers: { origin: FOREIGN } });
        assert.deepEqual([foreign.status, typeof foreign.body.error], [403, 'string'], place);
        assert.match(foreign.body.code, /^[a-z_]+$/);
        for (const origin of [hub.url, LISTED]) {
          assert.equal((await web.upgrade(place, { authorize, headers: { origin } })).status, 101, `${place} from ${origin}`);
        }
        assert.equal((await web.upgrade(place, { authorize })).status, 101, `${place} without an origin`);
      }
    }
  });
});

describe('a socket that never sends CONNECT', { concurrency: true }, () => {
  const late = async ({ closing, startedAt }, what) => {
    await closing(`${what} to be closed`);
    const had = Date.now() - startedAt;
    assert.ok(had >= 10_000, `${what} had ${had} ms to connect`);
  };

  test('is closed after 10 s while the worker waits for its token', async (t) => {
    await late(await rawSocket(t, hub), 'the bridged socket');
  });

  test('is closed after 10 s also when it keeps sending refused ones', async (t) => {
    const socket = await rawSocket(t, hub);
    socket.send('40/cli,{"token":"wrong"}');
    await late(socket, 'the refused socket');
  });

  test('is closed after 10 s in the object, which holds 200 without a token at once, and any with one', async (t) => {
    const silent = await Promise.all(Array.from({ length: 200 }, () => rawSocket(t, singleHub)));
    const turnedAway = await singleHub.web('solo').upgrade(SOCKET, { authorize: false });
    assert.equal(turnedAway.status, 503, turnedAway.text);
    assert.ok(Number(turnedAway.headers['retry-after']) > 0);
    const known = await connectCli(t, singleHub, { namespace: 'solo', way: 'header' });
    assert.equal(known.socket.connected, true, 'who has a token gets in');
    await Promise.all(silent.map((socket) => late(socket, 'a direct socket')));
    const cli = await connectCli(t, singleHub, { namespace: 'solo' });
    assert.equal(cli.socket.connected, true, 'there is room again');
  });

  test('leaves nothing behind in the object that its host name calls into being', async (t) => {
    const own = await startHub({ vars: { NAMESPACE_ROUTING: 'host' } });
    t.after(() => own.stop());
    const stranger = await rawSocket(t, own);
    await stranger.closing('the socket to be closed');
    await eventually(() => own.storageTables().every((tables) => tables.length === 0), 'the storage to be empty');
    assert.equal(own.storageTables().length, 1);
    // The label is the first of `127.0.0.1`: a namespace like any other.
    await connectCli(t, own, { namespace: '127' });
    assert.ok(own.storageTables().flat().includes('notes'), 'who has a token is remembered');
  });
});
