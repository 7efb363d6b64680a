/**
 * Invalid input over real connections: bytes that are not UTF-8, bodies without a length, paths that the runtime rewrites, and all
 * kinds of frames. The hub answers each input, and the hub and its sockets keep working. Native tests cover invalid fields
 * (`tests/it/bad_input`).
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Server } from 'socket.io';
import { ROUTES } from '../../scripts/lib/routes.mjs';
import { Recorder, withTimeout } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { ROOT, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { openTcpSocket } from './lib/tcp-socket.mjs';

const hub = await startHub();
after(() => hub.stop());

const readSource = (file) => readFileSync(path.join(ROOT, 'src', ...file.split('/')), 'utf8');

/** The names of the events of a CLI, from the source of the hub's decoder. */
const EVENTS = [
  ...readSource('wire/cli.rs')
    .split('let event = match name {')[1]
    .split('_ => return')[0]
    .matchAll(/"([a-z-]+)" =>/g),
].map(([, name]) => name);

const suite = new Lifetime();
const web = hub.web('team');
let session;
let cli;

before(async () => {
  ({ session, cli } = await liveSession(suite, hub, { namespace: 'team', tag: 'bad-input', auth: { machineId: 'm' } }));
  await web.registerMachine({ id: 'm' });
});
after(() => suite.end());

/** After every test: the socket works, and nothing has changed. */
afterEach(async () => {
  assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true }, 'the CLI’s socket works');
  const { status, body } = await web.get(`/api/sessions/${session.id}`);
  assert.equal(status, 200);
  assert.deepEqual([body.session.seq, body.session.metadataVersion, body.session.agentStateVersion], [0, 1, 1]);
  assert.deepEqual(
    (await web.get('/api/sessions')).body.sessions.map(({ id }) => id),
    [session.id],
  );
});

/** Bodies that are not UTF-8. */
const BYTES = {
  'not UTF-8': [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d],
  'UTF-16': [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00],
  gzip: [0x1f, 0x8b, 0x08],
};

/**
 * Sends a request unchanged on a new connection.
 * @param {string | Buffer} target the path, which may be invalid UTF-8
 * @param {{token?: string | null, host?: string, headers?: string[], body?: Buffer, chunked?: boolean}} [options]
 * @returns {Promise<{status: number, headers: Record<string, string>, text: string, body: any}>}
 */
async function sendRaw(method, target, options = {}) {
  const { token = web.token, host = '127.0.0.1', headers = [], body, chunked = false } = options;
  const socket = net.connect(hub.port, '127.0.0.1');
  const length = body === undefined ? [] : [chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`];
  const authorization = token === null ? [] : [`Authorization: Bearer ${token}`];
  const lines = [`Host: ${host}`, 'Connection: close', ...authorization, ...length, ...headers];
  socket.on('error', () => {});
  socket.write(Buffer.concat([Buffer.from(`${method} `), Buffer.from(target), Buffer.from(` HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)]));
  for (let offset = 0; body !== undefined && offset < body.length; offset += 1 << 20) {
    const piece = body.subarray(offset, offset + (1 << 20));
    socket.write(chunked ? Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]) : piece);
  }
  if (chunked) socket.write('0\r\n\r\n');
  try {
    return await withTimeout(readResponse(socket), `a response to ${method} ${target}`, 60_000);
  } finally {
    socket.destroy();
  }
}

/** Reads a response up to its length, because the runtime keeps the connection open. */
async function readResponse(socket) {
  let received = '';
  for await (const data of socket.setEncoding('utf8')) {
    received += data;
    const [head, text] = received.split(/\r\n\r\n([^]*)/, 2);
    const [first, ...lines] = head.split('\r\n');
    const headers = Object.fromEntries(lines.map((line) => line.split(/:\s*/, 2)).map(([name, value]) => [name.toLowerCase(), value]));
    if (text === undefined || Buffer.byteLength(text) < Number(headers['content-length'])) continue;
    const body = text.startsWith('{') ? JSON.parse(text) : undefined;
    return { status: Number(first.split(' ')[1]), headers, text, body };
  }
  throw new Error(`The connection ended after ${received}`);
}

function assertRefusal(answer, status, code, field) {
  assert.deepEqual([answer.status, answer.body?.code, answer.body?.field], [status, code, field], answer.text);
  assert.ok(answer.body.error.length > 10, 'an error text');
  assert.match(answer.headers['content-type'], /^application\/json/);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.headers['x-content-type-options'], 'nosniff');
}

describe('a body', () => {
  // These routes have no body.
  const bodiless = ['/switch', '/resume', '/revoke'];
  const readers = ROUTES.filter(
    // A device or its request must exist before the body is read: tests/it/bad_input covers these routes.
    ({ method, route }) => ['POST', 'PATCH'].includes(method) && !bodiless.some((end) => route.endsWith(end)) && !/devices.*\{/.test(route),
  );
  const targetOf = (route) =>
    route
      .replace(/(sessions)\/\{id\}/, `$1/${session.id}`)
      .replace('machines/{id}', 'machines/m')
      .replace(/\{\w+\}/, 'r');

  for (const [kind, bytes] of Object.entries(BYTES)) {
    test(`that is ${kind} is refused by every route, with and without a length`, async () => {
      assert.ok(readers.length >= 12, JSON.stringify(readers));
      for (const { method, route } of readers) {
        for (const chunked of [false, true]) {
          assertRefusal(await sendRaw(method, targetOf(route), { body: Buffer.from(bytes), chunked }), 400, 'invalid_body');
        }
      }
    });
  }

  test('for a sign-in is checked in the same way', async () => {
    for (const bytes of Object.values(BYTES)) {
      assertRefusal(await sendRaw('POST', '/api/auth', { token: null, body: Buffer.from(bytes), chunked: true }), 400, 'invalid_body');
    }
    const nameless = await sendRaw('POST', '/api/auth', { token: null, body: Buffer.from('{}') });
    assertRefusal(nameless, 400, 'invalid_field', 'accessToken');
    assertRefusal(
      await sendRaw('POST', '/api/auth', { token: null, body: Buffer.alloc(16 * 1024 + 1, ' '), chunked: true }),
      413,
      'body_too_large',
    );
  });

  test('that is too large is refused before other errors are reported, with and without a length', async () => {
    const large = 8 * 1024 * 1024 + 1;
    // With a length, the hub responds before it reads the body.
    const withLength = { headers: [`Content-Length: ${large}`] };
    const withoutLength = { body: Buffer.alloc(large, ' '), chunked: true };
    for (const options of [withLength, withoutLength]) {
      assertRefusal(await sendRaw('POST', `/api/sessions/${session.id}/messages`, options), 413, 'body_too_large');
      assertRefusal(await sendRaw('PATCH', '/api/sessions/unknown', options), 413, 'body_too_large');
    }
    assertRefusal(await sendRaw('PATCH', '/api/sessions/unknown', { ...withLength, token: 'wrong' }), 401, 'unauthorized');
  });

  test('with deeply nested values is refused', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const path = `/api/sessions/${session.id}/messages`;
    assertRefusal(await sendRaw('POST', path, { body: Buffer.from(deep) }), 400, 'invalid_body');
    assertRefusal(await sendRaw('POST', path, { body: Buffer.from(`{"text":${deep}}`) }), 400, 'invalid_field', 'text');
    assertRefusal(await sendRaw('POST', path, { body: Buffer.from(`{"unknown":${deep}}`) }), 400, 'invalid_field', 'text');
  });
});

describe('a path', () => {
  const withId = ROUTES.filter(({ route }) => route.includes('{id}'));
  const bodyOf = (method) => (method === 'GET' ? {} : { body: Buffer.from('{}') });

  test('with an invalid or unknown id is refused by every route', async () => {
    assert.ok(withId.length >= 20, JSON.stringify(withId));
    for (const { method, route } of withId) {
      const pathWithId = (id) => route.replace('{id}', id).replace(/\{\w+\}/, 'r');
      const code = { sessions: 'session_not_found', machines: 'machine_not_found', devices: 'device_not_found' }[route.split('/')[2]];
      assertRefusal(await sendRaw(method, pathWithId('%ff'), bodyOf(method)), 400, 'invalid_field', 'id');
      for (const id of /** @type {any[]} */ (['__proto__', '%00', '..%2f..%2fetc', 'x'.repeat(8192)])) {
        assertRefusal(await sendRaw(method, pathWithId(id), bodyOf(method)), 404, code);
      }
    }
  });

  test('of CLIs is closed to the JWT of a web client, also behind dot segments or a host with a path', async () => {
    const { body } = await hub.webWithoutToken().post('/api/auth', { accessToken: web.token });
    const jwt = { token: body.token };
    const ofCli = `/cli/sessions/${session.id}`;
    assertRefusal(await sendRaw('GET', ofCli, jwt), 401, 'unauthorized');
    const up = ['..', '%2e%2e', '.%2E', '..\\', '%2e%2e\\'];
    for (const [first, second] of up.flatMap((first) => up.map((second) => [first, second]))) {
      // The runtime and browsers resolve encoded dots differently. The last two paths lead to /cli either in the runtime or in
      // browsers.
      const targets = [
        `/api/sessions/${first}/${second}${ofCli}`,
        `/api/sessions/x/${first}/${second}/${second}/cli/machines/m`,
        `/api/${first}${ofCli}`,
        `/cli/${first}/${second}/api/sessions/${session.id}`,
        `/cli/sessions/${session.id}/x/${first}/${second}/../../../api/sessions`,
      ];
      for (const target of targets) {
        for (const token of [jwt.token, web.token, null]) assertRefusal(await sendRaw('GET', target, { token }), 404, 'not_found');
      }
      const created = await sendRaw('POST', `/api/${first}/cli/sessions`, { ...jwt, body: Buffer.from('{"tag":"stolen","metadata":{}}') });
      assertRefusal(created, 404, 'not_found');
    }
    for (const segment of ['..%2f', '%2e%2e%5c', '...', '.x', '%252e%252e']) {
      const answer = await sendRaw('GET', `/api/sessions/${segment}/${segment}${ofCli}`, jwt);
      assert.equal(answer.status, 404, `${segment}: ${answer.text}`);
    }
    for (const host of [
      'a/api/x',
      'a/api/..',
      'a%2fcli',
      `a%2fcli%2fsessions%2f${session.id}%3f`,
      'user@a',
      'a?x',
      'a#x',
      'a b',
      'a\\api',
    ]) {
      for (const target of [ofCli, `/api/sessions/${session.id}`]) {
        const answer = await sendRaw('GET', target, { ...jwt, host });
        assert.ok([400, 401, 404].includes(answer.status), `Host: ${host}, ${target}: ${answer.status} ${answer.text}`);
      }
    }
    assertRefusal(await sendRaw('GET', '/health/../api/sessions', { token: null }), 404, 'not_found');
  });

  test('with invalid bytes is refused', async () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0xa6, 0x80], [0x01], [0x7f]]) {
      const answer = await sendRaw('GET', Buffer.concat([Buffer.from('/api/sessions/'), Buffer.from(bytes)]));
      assert.ok(answer.status >= 400 && answer.status < 500, `${bytes}: ${answer.status} ${answer.text}`);
    }
  });

  test('with an invalid query is refused', async () => {
    for (const [query, field] of [
      ['limit=%ff', 'limit'],
      ['limit=1&limit=1', 'limit'],
      ['beforeSeq=9007199254740992', 'beforeSeq'],
      ['%ff=1', '\ufffd'],
    ]) {
      for (const root of ['/api', '/cli']) {
        assertRefusal(await sendRaw('GET', `${root}/sessions/${session.id}/messages?${query}`), 400, 'invalid_field', field);
      }
    }
  });
});

test('texts that differ after a NUL character are different, also in the database', async () => {
  const tags = ['a\u0000one', 'a\u0000two'];
  const ids = [];
  for (const tag of [...tags, ...tags]) ids.push((await web.openSession({ tag })).id);
  assert.equal(new Set(ids).size, 2);
  assert.deepEqual([ids[2], ids[3]], [ids[0], ids[1]]);
  const rows = await (await hub.database())
    .prepare('SELECT tag FROM sessions WHERE id IN (?1, ?2) ORDER BY tag')
    .bind(ids[0], ids[1])
    .raw();
  assert.deepEqual(rows.flat(), tags);
  for (const id of ids.slice(0, 2)) assert.equal((await web.delete(`/api/sessions/${id}`)).status, 200);
});

describe('headers', () => {
  test('with two tokens or an invalid token are refused', async () => {
    for (const headers of [[`Authorization: Bearer ${web.token}`], ['Authorization: Basic x']]) {
      assertRefusal(await sendRaw('GET', '/api/sessions', { headers }), 401, 'unauthorized');
    }
    for (const token of [`${web.token}\x7f`, '\u00ff', 'x'.repeat(8192), '.'.repeat(8192), 'a.b.c']) {
      const { status } = await sendRaw('GET', '/api/sessions', { token });
      assert.ok([400, 401].includes(status), `${status} for ${token.slice(0, 20)}`);
    }
  });

  test('that the worker uses internally are ignored', async () => {
    const headers = ['Hub-Namespace: other', 'Hub-Socket: cli', 'Last-Event-ID: \u00e9'];
    const answer = await sendRaw('GET', `/api/sessions/${session.id}`, { headers });
    assert.deepEqual([answer.status, answer.body.session.namespace], [200, 'team']);
  });
});

/** A payload of each JSON type. */
const PAYLOADS = [null, true, 7, 'text', [], {}, JSON.stringify({ sid: 'x' }), { sid: 7, machineId: 7, method: 7 }];

describe('an event of a CLI', () => {
  test('that is malformed gets an acknowledgement with the error', async () => {
    assert.ok(EVENTS.length >= 11, EVENTS.join());
    for (const name of EVENTS.filter((event) => event !== 'ping')) {
      for (const payload of PAYLOADS) {
        const ack = await cli.emitWithAck(name, payload);
        const versioned = /^(machine-)?update-/.test(name) && ack.result === 'error';
        const message = versioned ? ack.reason : ack.error;
        assert.ok(versioned || ack.ok === false, `${name} ${JSON.stringify(payload)}: ${JSON.stringify(ack)}`);
        assert.ok(message.length > 10, `${name}: ${JSON.stringify(ack)}`);
      }
    }
  });

  test('that is unknown is ignored and acknowledged with nothing', async () => {
    for (const name of ['messages-consumed', '__proto__']) {
      for (const payload of PAYLOADS) {
        assert.equal(await cli.emitWithAck(name, payload), undefined, `${name} ${JSON.stringify(payload)}`);
      }
    }
  });

  test('that is malformed and has no acknowledgement gets an error event', async (t) => {
    const other = await connectCli(t, hub, { namespace: 'team' });
    for (const name of EVENTS.filter((event) => event !== 'ping')) {
      for (const payload of PAYLOADS) {
        other.socket.emit(name, payload);
        const { code, message } = await other.nextError();
        assert.equal(code, 'bad-payload', `${name} ${JSON.stringify(payload)}: ${message}`);
      }
    }
    assert.deepEqual(await other.emitWithAck('ping', {}), { ok: true });
  });
});

/** Connects a WebSocket as a CLI. The token is sent with the upgrade, or in CONNECT through the worker. */
async function connectRawCli(t, withUpgrade) {
  const query = withUpgrade ? `&token=${encodeURIComponent(web.token)}` : '';
  const raw = await openRawSocket(t, hub.url, query);
  raw.socket.send(`40/cli,${JSON.stringify(withUpgrade ? {} : { token: web.token })}`);
  await raw.frames.next((frame) => frame.startsWith('40/cli,'), 'the answer to CONNECT');
  return raw;
}

/** Opens a WebSocket to a Socket.IO server and waits for the open packet. */
async function openRawSocket(t, url, query = '') {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/socket.io/?EIO=4&transport=websocket${query}`);
  const frames = new Recorder('the frames of the raw socket');
  socket.onmessage = ({ data }) => frames.push(data);
  const closed = new Promise((resolve) => {
    socket.onclose = ({ code, reason }) => {
      frames.end(`the socket was closed with ${code} ${reason}`);
      resolve({ code, reason });
    };
  });
  t.after(() => socket.close());
  await frames.next((frame) => frame.startsWith('0{'), 'the open packet');
  return { socket, frames, closed };
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
    'x',
    '9',
    '\u0000',
    '\u{1F980}',
    '4',
    '48',
    '42/cli,',
    '42/cli,{}',
    '42/cli,[null]',
    '42/cli,["ping"',
    '42/cli,["\\ud800"]',
    '43/cli,[]',
    '42/cli,99999999999999999999["ping"]',
    '451-/cli,["message",{"_placeholder":true,"num":0}]',
    '40/cli,[]',
    `42/cli,["ping",${DEEP}]`,
    `42/cli,${DEEP}`,
  ];
  const UNKNOWN_SESSION = `42/cli,["message",{"sid":"${'x'.repeat(1_000_000)}","message":${DEEP}${']'.repeat(1_000_000)}}]`;
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

  const isNoPing = (frame) => frame !== '2';

  for (const [how, withUpgrade] of [
    ['directly to the object', true],
    ['through the worker', false],
  ]) {
    test(`that is malformed closes its socket and no other (${how})`, async (t) => {
      for (const frame of [...FRAMES, new Uint8Array([4, 0x34, 0xff])]) {
        const { socket, closed } = await connectRawCli(t, withUpgrade);
        socket.send(frame);
        const isBinary = typeof frame !== 'string' || frame.startsWith('451-');
        const { code, reason } = await closed;
        const start = String(frame).slice(0, 40);
        assert.equal(code, isBinary ? 1003 : 1002, start);
        assert.match(reason, isBinary ? /base64/ : /^parse error$/, start);
      }
      assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true });
    });

    test(`that is unexpected closes its socket (${how})`, async (t) => {
      for (const frame of UNEXPECTED) {
        const { socket, closed } = await connectRawCli(t, withUpgrade);
        socket.send(frame);
        const { code, reason } = await closed;
        assert.equal(code, 1002, frame);
        assert.match(reason, /^Unexpected /, frame);
      }
      assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true });
    });

    test(`that is late or unknown is ignored (${how})`, async (t) => {
      const { socket, frames } = await connectRawCli(t, withUpgrade);
      const checkAlive = async (number) => {
        socket.send(`42/cli,${number}["ping"]`);
        assert.equal(await frames.next(isNoPing, 'the next frame'), `43/cli,${number}[{"ok":true}]`);
      };
      for (const [index, frame] of IGNORED.entries()) {
        socket.send(frame);
        await checkAlive(index);
      }
      socket.send(UNKNOWN_SESSION);
      assert.match(await frames.next(isNoPing, 'an answer'), /"code":"not-found"/);
      await checkAlive(99);
    });
  }

  test('closes its socket where the official server closes it', async (t) => {
    const official = await startOfficialServer(t);
    const others = ['40/web,', '42/cli,["x"]', '', 'x', '9', '48', '42/cli,{}', '42/cli,["ping"', '40/cli,[]'];
    // If a frame leaves the socket open, the server answers the frame or the following probe: a CONNECT for an unknown namespace.
    const PROBE = '40/probe,';
    const isClosedBy = async (url, query, connect, frame) => {
      const { socket, frames, closed } = await openRawSocket(t, url, query);
      if (connect) {
        socket.send('40/cli,');
        await frames.next((answer) => answer.startsWith('40/cli,'), 'the answer to CONNECT');
      }
      socket.send(frame);
      socket.send(PROBE);
      const answered = frames
        .next((answer) => answer.startsWith('44/probe,'), 'the answer to the probe')
        .then(
          () => false,
          () => true,
        );
      const isClosed = await Promise.race([answered, closed.then(() => true)]);
      socket.close();
      return isClosed;
    };
    const query = `&token=${encodeURIComponent(web.token)}`;
    for (const connect of [true, false]) {
      for (const frame of [...UNEXPECTED, ...IGNORED, ...others]) {
        const expected = await isClosedBy(official, '', connect, frame);
        assert.equal(await isClosedBy(hub.url, query, connect, frame), expected, `${frame} ${connect ? 'after' : 'before'} CONNECT`);
      }
    }
  });

  /** Connects a CLI over a bare TCP connection. */
  async function connectTcpCli(t) {
    const socket = openTcpSocket(t, hub.port, `/socket.io/?EIO=4&transport=websocket&token=${encodeURIComponent(web.token)}`);
    await socket.next('101');
    socket.send('40/cli,');
    await socket.next('40/cli,{"sid"');
    return socket;
  }

  test('that is not UTF-8 closes the socket if it is no valid packet', async (t) => {
    for (const bytes of [[0xff], [0x34, 0xff, 0xfe], [0x34, 0x32, 0xc3], [0x34, 0x32, 0xed, 0xa0, 0x80]]) {
      const socket = await connectTcpCli(t);
      socket.send(Buffer.from(bytes));
      await socket.next('parse error');
    }
  });

  test('that is not UTF-8 within a text, or not masked, is handled: the runtime does not report it', async (t) => {
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

  test('of a web client is ignored', async (t) => {
    const feed = await web.openSocket({ sessionId: session.id });
    t.after(() => feed.close());
    await feed.waitForGreeting();
    const listener = new WebSocket(`${hub.url.replace(/^http/, 'ws')}/api/events?token=${encodeURIComponent(web.token)}`);
    const frames = new Recorder('the frames of a listener');
    listener.onmessage = ({ data }) => frames.push(data);
    t.after(() => listener.close());
    await frames.next(() => true, 'the greeting');
    for (const frame of [...FRAMES.slice(0, 16), '1', '41', '{"type":"x"}', new Uint8Array([1])]) listener.send(frame);
    const marker = await web.openSession({ tag: 'marker' });
    assert.equal(JSON.parse(await frames.next(() => true, 'the next event')).type, 'session-added');
    await web.delete(`/api/sessions/${marker.id}`);
  });
});
