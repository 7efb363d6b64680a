/** How CLIs connect: where the token and the namespace come from, which sockets are refused, and limits before CONNECT. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, describe, test } from 'node:test';
import { eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { Cli, connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, KV_TABLE, startHub } from './lib/hub.mjs';
import { SOCKET, openRawSocket } from './lib/raw-socket.mjs';

const OTHER_ORIGIN = 'https://elsewhere.example';
const ALLOWED_ORIGIN = 'https://console.example';

const hub = await startHub({ after }, { vars: { CORS_ORIGINS: ALLOWED_ORIGIN }, wrappers: CLOCK_WORKER });
const hostHub = await startHub({ after }, { vars: { NAMESPACE_ROUTING: 'host' } });
const singleHub = await startHub({ after }, { vars: { NAMESPACE_ROUTING: 'single:solo' } });

/** For each way to connect: the hub, and the options of a CLI. */
const CONNECTION_METHODS = {
  'the token in CONNECT, which the worker reads first': { target: hub, namespace: 'team', tokenIn: 'connect' },
  'the token in a header of the upgrade': { target: hub, namespace: 'team', tokenIn: 'header' },
  'the token in the query of the upgrade': { target: hub, namespace: 'team', tokenIn: 'query' },
  'the host name, with the token in CONNECT': { target: hostHub, namespace: 'team', tokenIn: 'connect', label: 'team' },
  'the host name, with the token in a header': { target: hostHub, namespace: 'team', tokenIn: 'header', label: 'team' },
  'a hub of one namespace, with the token in CONNECT': { target: singleHub, namespace: 'solo', tokenIn: 'connect' },
  'a hub of one namespace, with the token in a header': { target: singleHub, namespace: 'solo', tokenIn: 'header' },
};

/** Connects a CLI that the hub refuses, and returns the message of the CONNECT_ERROR. */
async function readConnectError(t, target, options) {
  const cli = new Cli(target, options);
  t.after(() => cli.close());
  const error = await cli.connect().then(
    () => assert.fail('The hub accepted the CLI.'),
    (refused) => refused,
  );
  return error.message;
}

describe('a CLI connects', () => {
  for (const [name, { target, ...options }] of Object.entries(CONNECTION_METHODS)) {
    test(`with ${name}, and can send and receive messages and calls`, async (t) => {
      const { session, cli } = await liveSession(t, target, { tag: `way: ${name}`, .../** @type {any} */ (options) });
      assert.equal(session.namespace, options.namespace);

      const ack = await cli.sendMessage(session.id, { role: 'agent', content: name });
      assert.deepEqual([ack.ok, ack.seq], [true, 1]);

      const web = target.web(options.namespace);
      const sent = await web.post(`/api/sessions/${session.id}/messages`, { text: 'hello' });
      assert.equal(sent.status, 200, sent.text);
      const { message } = await cli.nextUpdate('new-message');
      assert.deepEqual([message.seq, message.content.content.text], [2, 'hello']);

      await cli.serve('listSkills', () => ({ success: true, skills: [] }));
      const skills = await web.get(`/api/sessions/${session.id}/skills`);
      assert.deepEqual(skills.body, { success: true, skills: [] });
    });

    test(`with ${name}: a wrong token is refused`, async (t) => {
      assert.equal(await readConnectError(t, target, { ...options, token: 'wrong' }), 'Invalid token');
    });

    test(`with ${name}: another namespace than the token’s is refused`, async (t) => {
      assert.match(await readConnectError(t, target, { ...options, auth: { namespace: 'other' } }), /^Invalid namespace/);
    });
  }

  for (const [name, { target, namespace, label }] of Object.entries({
    'the host name': { target: hostHub, namespace: 'other', label: 'team' },
    'a hub of one namespace': { target: singleHub, namespace: 'other' },
  })) {
    for (const tokenIn of ['connect', 'header']) {
      test(`with ${name}: a token of another namespace is refused (${tokenIn})`, async (t) => {
        assert.match(await readConnectError(t, target, { namespace, label, tokenIn }), /^Invalid token/);
      });
    }
  }
});

describe('CONNECT', () => {
  test('may omit the token only if the upgrade request had it', async (t) => {
    const headers = { authorization: `Bearer ${hub.token('team')}` };
    const withToken = await openRawSocket(t, hub, { headers });
    await withToken.frames.next((frame) => frame.startsWith('0{'), 'the open packet');
    withToken.send('40/cli,');
    await withToken.frames.next((frame) => frame.startsWith('40/cli,{"sid"'), 'CONNECT to be answered');

    const withoutToken = await openRawSocket(t, hub);
    withoutToken.send('40/cli,');
    assert.equal(await withoutToken.frames.next((frame) => frame.startsWith('44'), 'a refusal'), '44/cli,{"message":"Invalid token"}');
  });

  test('may be sent again with a valid token on the same socket', async (t) => {
    const { frames, send } = await openRawSocket(t, hub);
    send('40/cli,{"token":"wrong"}');
    await frames.next((frame) => frame.startsWith('44/cli,'), 'a refusal');
    send(`40/cli,${JSON.stringify({ token: hub.token('team') })}`);
    await frames.next((frame) => frame.startsWith('40/cli,'), 'CONNECT to be answered');
  });

  test('with a wrong token counts for its address as a request does: after 100 in a minute, only valid tokens are accepted', async (t) => {
    const limited = await startHub(t);
    const refusals = Array.from({ length: 100 }, (_, number) => readConnectError(t, limited, { token: `wrong-${number}` }));
    await Promise.all(refusals);
    assert.equal((await limited.web('team', 'wrong').get('/api/sessions')).status, 429);
    const { send, waitForClose } = await openRawSocket(t, limited);
    send('40/cli,{"token":"wrong"}');
    assert.equal((await waitForClose()).code, 1013);
    await connectCli(t, limited, { namespace: 'team' });
  });

  test('with two tokens for different namespaces is refused', async (t) => {
    const options = { namespace: 'team', tokenIn: 'header', auth: { token: hub.token('other') } };
    assert.match(await readConnectError(t, hub, options), /^Invalid token/);
  });

  test('to any other Socket.IO namespace than /cli is refused', async (t) => {
    for (const socketNamespace of ['', '/web', '/cli2']) {
      for (const tokenIn of ['connect', 'header']) {
        assert.equal(await readConnectError(t, hub, { tokenIn, socketNamespace }), 'Invalid namespace', `${socketNamespace} ${tokenIn}`);
      }
    }
  });
});

/** Hubs where a socket without a token waits for its CONNECT in the worker and in the object. */
const HUBS = { 'in the worker': hub, 'in the object': singleHub };

describe('a socket without a token', { concurrency: true }, () => {
  for (const [where, target] of Object.entries(HUBS)) {
    const token = target === hub ? hub.token('team') : singleHub.token('solo');

    test(`that sends a large frame is closed (${where})`, async (t) => {
      const { frames, send, waitForClose } = await openRawSocket(t, target);
      send(`40/cli,${JSON.stringify({ token, padding: 'x'.repeat(16 * 1024) })}`);
      const { code, reason } = await waitForClose();
      assert.deepEqual([code, reason], [1009, 'A frame before CONNECT is answered may have at most 16 KiB']);
      assert.deepEqual(
        frames.all.filter((frame) => !frame.startsWith('0{')),
        [],
      );
    });

    test(`is closed after three refused frames (${where})`, async (t) => {
      const { frames, send, waitForClose } = await openRawSocket(t, target);
      for (const wrong of ['40/cli,{"token":"wrong"}', '40/web,', '40/cli,{"token":5}']) {
        send(wrong);
        await frames.next((frame) => frame.startsWith('44/'), 'a refusal');
      }
      const { code, reason } = await waitForClose();
      assert.equal(code, 1008);
      assert.match(reason, /CONNECT/);
    });

    test(`is closed after sixteen pings (${where})`, async (t) => {
      const { frames, send, waitForClose } = await openRawSocket(t, target);
      for (let ping = 0; ping < 17; ping += 1) send(`2${ping}`);
      const { code, reason } = await waitForClose();
      assert.equal(code, 1008);
      assert.match(reason, /CONNECT/);
      const pongs = frames.all.filter((frame) => frame.startsWith('3'));
      assert.deepEqual(
        pongs,
        Array.from({ length: 16 }, (_, ping) => `3${ping}`),
      );
    });
  }

  test('may be closed by its client before CONNECT', async (t) => {
    const { send, waitForClose } = await openRawSocket(t, hub);
    send('1');
    assert.equal((await waitForClose()).code, 1000);
  });

  test('that is terminated logs no error', async (t) => {
    const ownHub = await startHub(t);
    // `upgrade` terminates the connection after the response.
    for (let count = 0; count < 10; count += 1) {
      assert.equal((await ownHub.web().upgrade(SOCKET, { authorize: false })).status, 101);
    }
    // Errors of these sockets are logged before another client has its acknowledgement.
    await (await connectCli(t, ownHub)).emitWithAck('ping', {});
    assert.deepEqual(ownHub.stderr.all, []);
  });
});

describe('binary data', () => {
  for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
    test(`closes the socket with a reason (${tokenIn})`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'binary', tag: `binary ${tokenIn}`, tokenIn });
      const closed = once(/** @type {any} */ (cli.socket), 'disconnect');
      cli.socket.emit('message', { sid: session.id, message: Buffer.from('bytes') });
      const [reason, details] = await withTimeout(closed, 'the disconnection');
      assert.equal(reason, 'transport close');
      assert.equal(details?.context?.code, 1003);
      assert.match(details.context.reason, /base64/);
    });
  }
});

describe('the upgrade', () => {
  test('is required: polling is refused', async (t) => {
    const answer = await hub.web().get('/socket.io/?EIO=4&transport=polling');
    assert.equal(answer.status, 400);
    assert.match(answer.body.error, /websocket/i);
    assert.match(answer.body.code, /^[a-z_]+$/);
    await readConnectError(t, hub, { transports: ['polling'] });
    assert.equal((await hub.web().get(SOCKET)).status, 400, 'a request without an upgrade');
  });

  test('of another protocol version than Engine.IO 4 is refused', async () => {
    assert.equal((await hub.web().upgrade('/socket.io/?EIO=3&transport=websocket')).status, 400);
  });

  test('from a page of another origin is refused, for CLIs and for events', async () => {
    const web = hub.web('team');
    for (const path of [SOCKET, `/api/events?token=${encodeURIComponent(web.token)}`]) {
      for (const authorize of [true, false]) {
        const foreign = await web.upgrade(path, { authorize, headers: { origin: OTHER_ORIGIN } });
        assert.deepEqual([foreign.status, typeof foreign.body.error], [403, 'string'], path);
        assert.match(foreign.body.code, /^[a-z_]+$/);
        for (const origin of [hub.url, ALLOWED_ORIGIN]) {
          assert.equal((await web.upgrade(path, { authorize, headers: { origin } })).status, 101, `${path} from ${origin}`);
        }
        assert.equal((await web.upgrade(path, { authorize })).status, 101, `${path} without an origin`);
      }
    }
  });
});

describe('a socket that never sends CONNECT', () => {
  test('is closed after 10 s while the worker waits for its token', async (t) => {
    const { frames, send, waitForClose } = await openRawSocket(t, hub);
    await frames.next((frame) => frame.startsWith('0{'), 'the open packet');
    await hub.advance('team', 5_000);
    send('2');
    await frames.next((frame) => frame === '3', 'a pong');
    await hub.advance('team', 5_000);
    assert.equal((await waitForClose()).code, 1008);
  });

  test('leaves no data in the object that it created by its host name', async (t) => {
    const ownHub = await startHub(t, { vars: { NAMESPACE_ROUTING: 'host' }, wrappers: CLOCK_WORKER });
    const socket = await openRawSocket(t, ownHub);
    // The namespace is the first label of the host name `127.0.0.1`.
    await ownHub.advance('127', 10_000);
    await socket.waitForCloseFrame('the socket to be closed');
    await eventually(() => ownHub.storageTables().every((tables) => tables.length === 0), 'the storage to be empty');
    assert.equal(ownHub.storageTables().length, 1);
    await connectCli(t, ownHub, { namespace: '127' });
    assert.ok(ownHub.storageTables().flat().includes(KV_TABLE), 'a client with a token creates the storage');
  });
});
