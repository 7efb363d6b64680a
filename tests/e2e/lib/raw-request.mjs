/** Requests over a bare TCP connection, for bytes that no HTTP library sends. */

import assert from 'node:assert/strict';
import net from 'node:net';
import { withTimeout } from '../../../scripts/lib/await.mjs';

/**
 * @typedef {{status: number, headers: Record<string, string>, text: string, body: any}} RawAnswer
 */

/**
 * Sends a request on a new connection, byte for byte: an HTTP library would correct or refuse it.
 * @param {number} port
 * @param {string} method
 * @param {string | Buffer} target the path, which may be invalid UTF-8
 * @param {{token?: string | null, host?: string, headers?: string[], body?: Buffer, chunked?: boolean}} options
 * @returns {Promise<RawAnswer>}
 */
export async function sendRaw(port, method, target, options) {
  const { token = null, host = '127.0.0.1', headers = [], body, chunked = false } = options;
  const socket = net.connect(port, '127.0.0.1');
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
    return await withTimeout(readResponse(socket), `a response to ${method} ${target}`);
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

/**
 * Asserts the status, the code and the headers of an error response.
 * @param {RawAnswer} answer
 * @param {number} status
 * @param {string} code
 * @param {string} [field]
 */
export function assertRefusal(answer, status, code, field) {
  assert.deepEqual([answer.status, answer.body?.code, answer.body?.field], [status, code, field], answer.text);
  assert.ok(answer.body.error.length > 10, 'an error text');
  assert.match(answer.headers['content-type'], /^application\/json/);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.headers['x-content-type-options'], 'nosniff');
}
