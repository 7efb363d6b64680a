// `npm run status`, with a hub that works, a hub whose database is stalled, a hub that refuses the token, and no hub.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { inProject } from '../lib/paths.mjs';
import { startServer } from './support/fake-server.mjs';

const AT = Date.UTC(2026, 10, 2, 9, 30);

const STATUS = {
  version: '0.3.0',
  protocolVersion: 1,
  namespace: 'team',
  hash: '0123456789ab',
  loadedAt: AT,
  sessions: { total: 12, active: 3 },
  machines: { total: 2, online: 1 },
  messages: 3456,
  sockets: { clis: 1, webClients: 2 },
  database: { isStalled: false, queuedBytes: 0 },
  faults: [],
  pushes: [],
};

/** Starts a hub that answers each request with the same body. */
async function startFake(t, status, body, headers = {}) {
  const requests = [];
  const { stop, url } = await startServer(t, (request, response) => {
    requests.push([request.url, request.headers.authorization]);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  });
  return { stop, url, requests };
}

/** Runs the command with the token `secret:team`. */
async function runStatus(t, hub, ...args) {
  const home = tempDir(t);
  const { npm_config_hub: _, ...environment } = process.env;
  const env = { ...environment, CLI_API_TOKEN: 'secret:team', SESSION_GATEWAY_HOME: home };
  const child = spawn(process.execPath, [inProject('scripts', 'product', 'status.mjs'), '--hub', hub, ...args], { env });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

/** Returns the value in the row of a title. */
const rowOf = (stdout, title) => new RegExp(`^${title} +(.+)$`, 'm').exec(stdout)?.[1];

test('the status of a namespace is a table, and JSON for programs', async (t) => {
  const { url, requests } = await startFake(t, 200, { ...STATUS, storage: { bytes: 3 * 1024 * 1024, maxBytes: 1024 ** 3 } });
  const { code, stdout } = await runStatus(t, `${url}/`);
  assert.equal(code, 0);
  assert.deepEqual(requests, [['/api/status', 'Bearer secret:team']]);
  const titles = ['Namespace', 'Sessions', 'Messages', 'Machines', 'Connections', 'Storage', 'Database', 'Loaded'];
  assert.deepEqual(
    titles.map((title) => rowOf(stdout, title)),
    [
      'team (in logs: 0123456789ab)',
      '12, 3 active',
      '3456',
      '2, 1 online',
      '1 CLI, 2 web clients',
      '3.0 MiB of 1.0 GiB (0 %)',
      'answers',
      '2026-11-02 09:30 UTC',
    ],
  );
  assert.match(stdout, /^Faults: none since the namespace was loaded$/m);
  const json = await runStatus(t, url, '--json');
  assert.equal(JSON.parse(json.stdout).messages, 3456);
});

test('faults and notifications are listed, and their texts cannot change the terminal', async (t) => {
  const { url } = await startFake(t, 200, {
    ...STATUS,
    faults: [{ at: AT, line: { event: 'push-failed', status: 503, reason: 'busy\u001b[31m' } }],
    pushes: [{ at: AT, kind: 'ready', outcome: 'sent', title: 'Ready', body: 'a\nb\u202e', sent: 2, failed: 1 }],
  });
  const { code, stdout } = await runStatus(t, url);
  assert.equal(code, 0);
  assert.match(stdout, /^ {2}2026-11-02 09:30 {2}push-failed {2}status: 503, reason: busy\[31m$/m);
  assert.match(stdout, /^ {2}2026-11-02 09:30 {2}sent {2}2 sent, 1 failed {2}Ready: ab$/m);
  assert.doesNotMatch(stdout, /[\u001b\u202e]/);
});

test('with several databases, the status names that of the namespace', async (t) => {
  const { url } = await startFake(t, 200, { ...STATUS, database: { name: 'DB_2', isStalled: false, queuedBytes: 0 } });
  const { stdout } = await runStatus(t, url);
  assert.equal(rowOf(stdout, 'Database'), 'DB_2 answers');
});

test('if the database is stalled, the exit code is 1', async (t) => {
  const { url } = await startFake(t, 200, { ...STATUS, database: { isStalled: true, queuedBytes: 2048 } });
  const { code, stdout } = await runStatus(t, url);
  assert.equal(code, 1);
  assert.equal(rowOf(stdout, 'Database'), 'stalled: a query waits for longer than usual, 2.0 KiB of changes are not written yet');
});

test('after an error of the hub, the exit code is 1, and the output has the id of the request in the hub’s log', async (t) => {
  const error = { error: 'The database does not answer.', code: 'hub_unavailable' };
  const { url } = await startFake(t, 503, error, { 'x-request-id': '1f3c0000-0000-4000-8000-000000000000' });
  const { code, stderr } = await runStatus(t, url);
  assert.equal(code, 1);
  assert.match(stderr, /The hub answered 503: The database does not answer\.\n.*request 1f3c0000-0000-4000-8000-000000000000/);
});

test('with a refused token, a server that is not a hub, or no server, the exit code is 1, and the error says what is wrong', async (t) => {
  const refusing = await startFake(t, 401, { error: 'The token is not valid.', code: 'unauthorized' });
  const other = await startFake(t, 200, null);
  const elsewhere = await startFake(t, 404, null);
  const ended = await startFake(t, 200, STATUS);
  ended.stop();
  for (const [hub, reason] of /** @type {[string, RegExp][]} */ ([
    [refusing.url, /401: The token is not valid\.\nGive another token with --token-file/],
    [other.url, /does not answer as a hub \(status 200\)\.\nCheck the address\./],
    [`${elsewhere.url}/team`, /\/team does not answer as a hub \(status 404\)\.\nCheck the address\./],
    [ended.url, /Cannot reach the hub at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\)\.\nIf it is not running, start it with `npm run dev`/],
  ])) {
    const { code, stderr } = await runStatus(t, hub);
    assert.deepEqual([code, reason.test(stderr)], [1, true], stderr);
  }
  assert.equal((await runStatus(t, 'hub.example')).code, 2);
});
