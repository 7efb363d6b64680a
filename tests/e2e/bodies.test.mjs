/** Request bodies with and without a length. The hub never reads a body beyond its limit. */

import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, describe, test } from 'node:test';
import { deferred, withTimeout } from '../../scripts/lib/await.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

const MIB = 1024 * 1024;

/** The parts that read bodies: a path, its limit, and a function that makes a valid body of at least 1 KiB. */
const READERS = {
  'the worker': {
    path: '/api/auth',
    limit: 16 * 1024,
    body: (length) => paddedBody(`{"accessToken":${JSON.stringify(hub.token('bodies'))},"padding":"`, length),
  },
  'the object': {
    path: '/cli/sessions',
    limit: 8 * MIB,
    body: (length) => paddedBody('{"tag":"bodies","metadata":{"path":"/code/bodies","host":"e2e"},"padding":"', length),
  },
};

function paddedBody(head, length) {
  return `${head}${'x'.repeat(length - head.length - 2)}"}`;
}

/**
 * Sends a body.
 * @param {string} path
 * @param {string} body
 * @param {{length?: number, end?: boolean}} options `length`: the Content-Length; a body without a length is chunked. `end`: ends
 *   the request; a request without `end` never ends, and the hub must still respond
 */
async function sendBody(path, body, options) {
  const { length, end = false } = options;
  const { promise, resolve, reject } = deferred();
  const size = length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': length };
  const headers = { authorization: `Bearer ${hub.token('bodies')}`, ...size };
  const request = http.request(`${hub.url}${path}`, { method: 'POST', headers, agent: false });
  request.once('response', resolve);
  request.once('error', reject);
  request.flushHeaders();
  for (let offset = 0; offset < body.length; offset += 64 * 1024) request.write(body.slice(offset, offset + 64 * 1024));
  if (end) request.end();
  const response = await withTimeout(promise, `a response to ${path}`);
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  request.destroy();
  return { status: response.statusCode, body: JSON.parse(text) };
}

for (const [reader, { path, limit, body }] of Object.entries(READERS)) {
  describe(`a body that ${reader} reads`, { concurrency: true }, () => {
    test('may be as long as its limit, with and without a length', async () => {
      for (const length of [limit, undefined]) {
        assert.equal((await sendBody(path, body(limit), { length, end: true })).status, 200);
      }
      assert.equal((await sendBody(path, body(1024), { end: true })).status, 200);
    });

    test('is refused before it is sent when its Content-Length is above the limit', async () => {
      const refused = await sendBody(path, '', { length: limit + 1 });
      assert.deepEqual([refused.status, refused.body.code], [413, 'body_too_large']);
    });

    test('is refused as soon as it exceeds the limit when it is chunked', async () => {
      const endless = await sendBody(path, body(limit + 1), {});
      assert.deepEqual([endless.status, endless.body.code], [413, 'body_too_large']);
    });
  });
}

/**
 * Sends a chunked body with a wrong Content-Length, and another request on the same connection. Waits until the connection is closed,
 * and returns the statuses of the responses.
 */
async function sendWithWrongLength(path, body, length) {
  const { promise, resolve } = deferred();
  const { hostname, port } = new URL(hub.url);
  const socket = net.connect(Number(port), hostname);
  let received = '';
  socket.on('error', resolve);
  socket.on('close', resolve);
  socket.setEncoding('latin1').on('data', (text) => (received += text));
  const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}`, `Authorization: Bearer ${hub.token('bodies')}`];
  socket.write(`${[...head, `Content-Length: ${length}`, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n`);
  socket.write(`${body.length.toString(16)}\r\n`);
  socket.write(body);
  socket.write('\r\n0\r\n\r\n');
  socket.write(`GET /health HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
  await withTimeout(promise, `the end of the connection of ${path}`);
  return [...received.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
}

// Transfer-Encoding overrides Content-Length, and the server must close the connection after its response, because a proxy may
// have found another end of the request (RFC 9112, sections 6.1 and 6.3).
describe('a chunked body with a Content-Length', () => {
  for (const [reader, { path, limit, body }] of Object.entries(READERS)) {
    test(`ends with its last chunk, and so does the connection, for ${reader}`, async () => {
      for (const length of [1_000, limit, 4 * limit]) assert.deepEqual(await sendWithWrongLength(path, body(2_000), length), [200]);
      assert.equal((await sendBody(path, body(1024), { end: true })).status, 200);
    });

    test(`is not read beyond the limit of ${reader}, however small the Content-Length`, async () => {
      for (const length of [0, 1_000, limit]) {
        assert.deepEqual(await sendWithWrongLength(path, body(limit), length), [200]);
        for (const size of [limit + 1, 4 * limit]) assert.deepEqual(await sendWithWrongLength(path, body(size), length), [413]);
      }
    });
  }
});

describe('a client that disconnects while it sends a body', () => {
  for (const [reader, { path }] of Object.entries(READERS)) {
    test(`causes no error in the log of ${reader}`, async () => {
      const { hostname, port } = new URL(hub.url);
      for (const size of /** @type {const} */ (['Content-Length: 5000', 'Transfer-Encoding: chunked'])) {
        const socket = net.connect(Number(port), hostname);
        const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}`, `Authorization: Bearer ${hub.token('bodies')}`, size];
        const sent = Promise.withResolvers();
        socket.write(`${head.join('\r\n')}\r\n\r\n8\r\n{"tag":"\r\n`, sent.resolve);
        await sent.promise;
        // When another connection has a response, the hub has started to read the body.
        assert.equal((await hub.web('bodies').get('/api/sessions')).status, 200);
        const closed = Promise.withResolvers();
        socket.once('close', closed.resolve).destroy();
        await closed.promise;
        for (let round = 0; round < 5; round++) assert.equal((await hub.web('bodies').get('/api/sessions')).status, 200);
      }
      assert.deepEqual(
        hub.stderr.all.filter((text) => text.includes('failed')),
        [],
      );
    });
  }
});
