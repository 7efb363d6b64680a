/** The connection to the server of opencode. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { deferred } from '../../scripts/lib/await.mjs';
import { OpencodeServer } from '../src/opencode-server.mjs';

const CHILD = 'ses_child';
const ASKED = { id: 'per_1', sessionID: CHILD, permission: 'bash', patterns: ['ls'], metadata: { command: 'ls' } };

/** Starts the scripted server at the port that was reserved for opencode, and follows its events. */
async function follow(t, onPermission) {
  const server = await OpencodeServer.reserve();
  const port = Number(server.args[1]);
  /** The open streams of events. @type {import('node:http').ServerResponse[]} */
  const streams = [];
  /** @type {object[]} */
  const replies = [];
  const { promise: replied, resolve: onReply } = deferred();
  const http = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://opencode');
    assert.equal(request.headers.authorization, `Basic ${Buffer.from('opencode:secret').toString('base64')}`);
    assert.equal(searchParams.get('directory'), '/app');
    if (pathname === '/event') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      streams.push(response);
      http.emit('stream');
      return;
    }
    const body = JSON.parse((await request.toArray()).join(''));
    replies.push(body);
    response.end('true');
    onReply([pathname, body]);
  }).listen(port, '127.0.0.1');
  await once(http, 'listening');
  const { promise: ended, resolve: end } = deferred();
  t.after(() => {
    end(undefined);
    http.closeAllConnections();
    http.close();
  });
  const send = (type, properties) => streams.at(-1).write(`data: ${JSON.stringify({ type, properties })}\n\n`);
  const env = { OPENCODE_SERVER_PASSWORD: 'secret' };
  const log = { debug: () => {} };
  await server.follow({ sessionId: 'ses_own', cwd: '/app', env, ended, log, onUpdate: () => {}, onPermission });
  return { http, streams, send, replied, replies };
}

test("a decision is sent as the answer to a sub-agent's request", async (t) => {
  const asked = [];
  const { send, replied } = await follow(t, async ({ toolCall }) => {
    asked.push(toolCall.rawInput);
    return { outcome: { outcome: 'selected', optionId: 'once' } };
  });
  send('permission.asked', ASKED);
  assert.deepEqual(await replied, ['/permission/per_1/reply', { reply: 'once' }]);
  assert.deepEqual(asked, [{ command: 'ls' }]);
});

test('a request without a decision is rejected, so that the sub-agent continues', async (t) => {
  const { send, replied } = await follow(t, async () => ({ outcome: { outcome: 'cancelled' } }));
  send('permission.asked', ASKED);
  assert.deepEqual(await replied, ['/permission/per_1/reply', { reply: 'reject' }]);
});

test('a request that was answered elsewhere is withdrawn, and is not answered again', async (t) => {
  const { promise: withdrawn, resolve: onWithdrawn } = deferred();
  const { send, replies } = await follow(t, async (_params, signal) => {
    await once(signal, 'abort');
    onWithdrawn(undefined);
    return { outcome: { outcome: 'cancelled' } };
  });
  send('permission.asked', ASKED);
  send('permission.replied', { sessionID: CHILD, requestID: 'per_1', reply: 'once' });
  await withdrawn;
  await new Promise(setImmediate);
  assert.deepEqual(replies, []);
});

test('the events are followed again after the connection is lost', async (t) => {
  const { http, streams, send, replied } = await follow(t, async () => ({ outcome: { outcome: 'selected', optionId: 'once' } }));
  const again = once(http, 'stream');
  streams[0].destroy();
  await again;
  send('permission.asked', ASKED);
  await replied;
});
