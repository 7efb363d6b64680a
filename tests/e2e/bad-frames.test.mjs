/** Malformed and unexpected frames of CLIs and web clients. The hub closes at most the socket of the frame. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import { Server } from 'socket.io';
import { SOCKET, openRawSocket } from './lib/raw-socket.mjs';
import { openTcpSocket } from './lib/tcp-socket.mjs';
import { startUnchangedHub } from './lib/unchanged-hub.mjs';

const { hub, web, cli } = await startUnchangedHub();

/** Connects a WebSocket as a CLI. The token is sent with the upgrade, or in CONNECT through the worker. */
async function connectRawCli(t, withUpgrade) {
  const query = withUpgrade ? `&token=${encodeURIComponent(web.token)}` : '';
  const raw = await openRawSocket(t, hub, { query });
  raw.send(`40/cli,${JSON.stringify(withUpgrade ? {} : { token: web.token })}`);
  await raw.frames.next((frame) => frame.startsWith('40/cli,'), 'the answer to CONNECT');
  return raw;
}

/** Starts the official server with the namespace `/cli`. */
async function startOfficialServer(t) {
  const server = createServer();
  const io = new Server(server);
  io.of('/cli');
  t.after(() => io.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
}

describe('a frame of a CLI', () => {
  const DEEP = '['.repeat(1_000_000);
  const FRAMES = [
    '',
    '\u0000',
    '\u{1F980}',
    '42/cli,["\\ud800"]',
    '42/cli,99999999999999999999["ping"]',
    '451-/cli,["message",{"_placeholder":true,"num":0}]',
    `42/cli,["ping",${DEEP}]`,
  ];
  const IGNORED = ['43/cli,5[]', '43/cli,5["{"]', '42/cli,[5]', '5', '6', '3', '0{}'];
  const UNEXPECTED = [
    '42["ping"]',
    '42/web,7["ping"]',
    '43/web,7[]',
    '41',
    '41/web,',
    '40/cli,',
    '40/cli,{"token":"wrong"}',
    '44/cli,"no"',
    '44/web,"no"',
  ];

  for (const [how, withUpgrade] of [
    ['directly to the object', true],
    ['through the worker', false],
  ]) {
    test(`that is malformed closes its socket and no other (${how})`, async (t) => {
      for (const frame of [...FRAMES, new Uint8Array([4, 0x34, 0xff])]) {
        const { send, waitForClose } = await connectRawCli(t, withUpgrade);
        send(frame);
        const isBinary = typeof frame !== 'string' || frame.startsWith('451-');
        const { code, reason } = await waitForClose();
        const start = String(frame).slice(0, 40);
        assert.equal(code, isBinary ? 1003 : 1002, start);
        assert.match(reason, isBinary ? /base64/ : /^parse error$/, start);
      }
      assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true });
    });

    test(`that is unexpected closes its socket (${how})`, async (t) => {
      for (const frame of UNEXPECTED) {
        const { send, waitForClose } = await connectRawCli(t, withUpgrade);
        send(frame);
        const { code, reason } = await waitForClose();
        assert.equal(code, 1002, frame);
        assert.match(reason, /^Unexpected /, frame);
      }
      assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true });
    });
  }

  test('closes its socket exactly if the official server closes the socket, too', async (t) => {
    const official = await startOfficialServer(t);
    const moreFrames = ['40/web,', '42/cli,["x"]', '', 'x', '9', '48', '42/cli,{}', '42/cli,["ping"', '40/cli,[]'];
    // If a frame leaves the socket open, the server answers the frame or the following probe: a CONNECT for an unknown namespace.
    const PROBE = '40/probe,';
    const isClosedBy = async (url, query, connect, frame) => {
      const { send, close, frames, waitForClose } = await openRawSocket(t, { url }, { query });
      await frames.next((answer) => answer.startsWith('0{'), 'the open packet');
      if (connect) {
        send('40/cli,');
        await frames.next((answer) => answer.startsWith('40/cli,'), 'the answer to CONNECT');
      }
      send(frame);
      send(PROBE);
      const probeOutcome = frames
        .next((answer) => answer.startsWith('44/probe,'), 'the answer to the probe')
        .then(
          () => false,
          () => true,
        );
      const isClosed = await Promise.race([probeOutcome, waitForClose().then(() => true)]);
      close();
      return isClosed;
    };
    const query = `&token=${encodeURIComponent(web.token)}`;
    for (const connect of [true, false]) {
      for (const frame of [...UNEXPECTED, ...IGNORED, ...moreFrames]) {
        const expected = await isClosedBy(official, '', connect, frame);
        assert.equal(await isClosedBy(hub.url, query, connect, frame), expected, `${frame} ${connect ? 'after' : 'before'} CONNECT`);
      }
    }
  });

  /** Connects a CLI over a bare TCP connection. */
  async function connectTcpCli(t) {
    const socket = openTcpSocket(t, hub.port, `${SOCKET}&token=${encodeURIComponent(web.token)}`);
    await socket.next('101');
    socket.send('40/cli,');
    await socket.next('40/cli,{"sid"');
    return socket;
  }

  test('with invalid UTF-8 closes the socket if the frame is no valid packet', async (t) => {
    for (const bytes of [[0xff], [0x34, 0xff, 0xfe], [0x34, 0x32, 0xc3], [0x34, 0x32, 0xed, 0xa0, 0x80]]) {
      const socket = await connectTcpCli(t);
      socket.send(Buffer.from(bytes));
      await socket.next('parse error');
    }
  });

  test('with invalid UTF-8 in a JSON text, or without a mask, is handled like any frame, because the runtime hides the fault', async (t) => {
    const socket = await connectTcpCli(t);
    const { id } = await web.openSession({ tag: 'bytes' });
    socket.send(Buffer.concat([Buffer.from(`42/cli,1["message",{"sid":"${id}","message":"a`), Buffer.from([0xff]), Buffer.from('"}]')]));
    await socket.next('43/cli,1[{"ok":true');
    socket.send('42/cli,2["ping"]', { isMasked: false });
    await socket.next('43/cli,2[{"ok":true}]');
    const [{ content }] = await web.readHistory(id);
    assert.equal(content, 'a\ufffd');
    assert.equal((await web.delete(`/api/sessions/${id}`)).status, 200);
  });
});
