/** Bodies of requests, whose length is told beforehand or not: none is read further than it may be long. */

import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, describe, test } from 'node:test';
import { deferred, withTimeout } from './lib/await.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const MIB = 1024 * 1024;

/** Places that read a body, how long it may be there, and a body that they take, of any length from 1 KiB on. */
const PLACES = {
  'the worker': {
    path: '/api/auth',
    limit: 16 * 1024,
    body: (length) => padded(`{"accessToken":${JSON.stringify(hub.token('bodies'))},"padding":"`, length),
  },
  'the object': {
    path: '/cli/sessions',
    limit: 8 * MIB,
    body: (length) => padded('{"tag":"bodies","metadata":{"path":"/code/bodies","host":"e2e"},"padding":"', length),
  },
};

function padded(head, length) {
  return `${head}${'x'.repeat(length - head.length - 2)}"}`;
}

/**
 * Sends a body, or as much of one as there is.
 * @param {{length?: number, end?: boolean}} options `length` is told beforehand; without it the body goes in chunks.
 *   Without `end` the body never ends, and the hub has to answer nonetheless
 */
async function send(path, body, { length, end = false }) {
  const { promise, resolve, reject } = deferred();
  const size = length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': length };
  const headers = { authorization: `Bearer ${hub.token('bodies')}`, ...size };
  const request = http.request(`${hub.url}${path}`, { method: 'POST', headers, agent: false });
  request.once('response', resolve);
  request.once('error', reject);
  request.flushHeaders();
  for (let at = 0; at < body.length; at += 64 * 1024) request.write(body.slice(at, at + 64 * 1024));
  if (end) request.end();
  const response = await withTimeout(promise, `an answer to ${path}`);
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  request.destroy();
  return { status: response.statusCode, body: JSON.parse(text) };
}

for (const [where, { path, limit, body }] of Object.entries(PLACES)) {
  describe(`a body that ${where} reads`, () => {
    test('may be as long as its limit, told or not', async () => {
      for (const length of [limit, undefined]) {
        assert.equal((await send(path, body(limit), { length, end: true })).status, 200);
      }
      assert.equal((await send(path, body(1024), { end: true })).status, 200);
    });

    test('is refused before it is sent when its length was told and is too much', async () => {
      const told = await send(path, '', { length: limit + 1 });
      assert.deepEqual([told.status, told.body.code], [413, 'body_too_large']);
    });

    test('is refused as soon as it is too long when its length was not told', async () => {
      const endless = await send(path, body(limit + 1), {});
      assert.deepEqual([endless.status, endless.body.code], [413, 'body_too_large']);
    });
  });
}

/** Sends a body in chunks that says it is shorter, as no client library would; answers the status, or that it was cut off. */
async function lie(path, body, told) {
  const { promise, resolve } = deferred();
  const { hostname, port } = new URL(hub.url);
  const socket = net.connect(port, hostname);
  socket.on('error', () => resolve('cut off'));
  socket.on('close', () => resolve('cut off'));
  socket.setEncoding('latin1').on('data', (text) => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])));
  const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}`, `Authorization: Bearer ${hub.token('bodies')}`];
  socket.write(`${[...head, `Content-Length: ${told}`, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n`);
  socket.write(`${body.length.toString(16)}\r\n`);
  socket.write(body);
  socket.write('\r\n0\r\n\r\n');
  const status = await withTimeout(promise, `an answer to ${path}`);
  socket.destroy();
  return status;
}

describe('a chunked body that says it is shorter than it is', () => {
  for (const [where, { path, limit, body }] of Object.entries(PLACES)) {
    test(`is read by ${where} no further than it said`, async () => {
      for (const length of [2_000, limit, 4 * limit]) assert.notEqual(await lie(path, body(length), 1_000), 200);
      assert.equal((await send(path, body(1024), { end: true })).status, 200);
    });
  }
});

describe('a client that hangs up in the midst of a body', () => {
  for (const [where, { path }] of Object.entries(PLACES)) {
    test(`is nothing that ${where} complains of`, async () => {
      const { hostname, port } = new URL(hub.url);
      for (const size of ['Content-Length: 5000', 'Transfer-Encoding: chunked']) {
        const socket = net.connect(port, hostname);
        const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}`, `Authorization: Bearer ${hub.token('bodies')}`, size];
        const sent = Promise.withResolvers();
        socket.write(`${head.join('\r\n')}\r\n\r\n8\r\n{"tag":"\r\n`, sent.resolve);
        await sent.promise;
        // An answer on another connection: by then the hub has begun to read the body.
        assert.equal((await hub.web('bodies').get('/api/sessions')).status, 200);
        const closed = Promise.withResolvers();
        socket.once('close', closed.resolve).destroy();
        await closed.promise;
        for (let round = 0; round < 5; round++) assert.equal((await hub.web('bodies').get('/api/sessions')).status, 200);
      }
      assert.deepEqual(hub.stderr.all.filter((text) => text.includes('failed')), []);
    });
  }
});
