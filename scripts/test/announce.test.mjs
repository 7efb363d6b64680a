// What a start prints: the access token once, and never in a link or a command; commands for the hub at its address.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import test from 'node:test';
import { announce } from '../product/hub/announce.mjs';

for (const { what, status, body, isNamespaceToken } of [
  { what: 'with a link', status: 200, body: { code: 'ABCD-EFGH', expiresAt: Date.now() + 300_000 }, isNamespaceToken: false },
  { what: 'without a link', status: 503, body: { error: 'Overloaded', code: 'unavailable' }, isNamespaceToken: true },
])
  test(`a start prints the whole token once: ${what}`, async (t) => {
    const server = createServer((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const print = t.mock.method(console, 'log', () => {});
    const token = 'secret-of-this-hub';
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    await announce({ host: '127.0.0.1', port }, token, isNamespaceToken);
    const printed = print.mock.calls.map((call) => call.arguments.join(' ')).join('\n');
    assert.equal(printed.split(token).length - 1, 1, printed);
    assert.match(printed, new RegExp(status === 200 ? '/pair#ABCD-EFGH' : 'There is no link with a code'));
    if (status !== 200) return;
    assert.ok(printed.includes(`for a new one: npm run devices -- add --hub http://127.0.0.1:${port})`), printed);
    assert.ok(printed.includes(`start the hub with: npm run dev -- --port ${port} --host`), printed);
  });
