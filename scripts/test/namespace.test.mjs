// The files and the progress of `npm run namespace -- export` and `import`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { json } from 'node:stream/consumers';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { hubAccess, requestAsOperator } from '../product/namespace/operator.mjs';
import { UsageError } from '../lib/errors.mjs';
import { checkExport, exportNamespace, importNamespace } from '../product/namespace/export.mjs';
import { startServer } from './support/fake-server.mjs';

const ROWS = Array.from({ length: 1_200 }, (_, seq) => ({ table: 'messages', seq }));

test('an export is read and an import is sent in chunks, and both report their progress', async (t) => {
  const sent = [];
  const { url } = await startServer(t, async (request, response) => {
    const from = Number(new URL(String(request.url), 'http://hub').searchParams.get('cursor'));
    const next = from + 500 < ROWS.length ? { next: String(from + 500) } : {};
    if (request.method === 'POST') sent.push(await json(request));
    response.end(JSON.stringify(request.method === 'GET' ? { rows: ROWS.slice(from, from + 500), ...next } : {}));
  });
  const folder = tempDir(t);
  const file = path.join(folder, 'team.jsonl');
  const hub = { url, secret: 'secret' };
  const progress = [];
  const update = (state) => progress.push(state);
  await exportNamespace(hub, 'team', file, update);
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  assert.deepEqual(
    lines.slice(1, -1).map((line) => JSON.parse(line)),
    ROWS,
  );
  await importNamespace(hub, { file, ...(await checkExport(file)) }, false, update);
  const [begin, ...chunks] = sent;
  assert.deepEqual([begin, chunks.pop()], [{ step: 'begin' }, { step: 'end' }]);
  assert.deepEqual(pluck(chunks, 'rows.length'), [500, 500, 200]);
  assert.deepEqual(
    chunks.flatMap(({ rows }) => rows),
    ROWS,
  );
  const imported = [500, 1_000, 1_200].map((rows) => `${rows} of 1200 rows`);
  assert.deepEqual(progress, ['500 rows', '1000 rows', '1200 rows', ...imported]);
});

test('an export waits as long as the hub asks while it is overloaded, and says so', async (t) => {
  let refusals = 20;
  const { url } = await startServer(t, (_request, response) => {
    refusals -= 1;
    if (refusals >= 0) response.writeHead(503, { 'retry-after': '0' }).end('{"error":"Try again.","code":"overloaded"}');
    else response.end(JSON.stringify({ rows: ROWS }));
  });
  const folder = tempDir(t);
  const progress = [];
  const rows = await exportNamespace({ url, secret: 'secret' }, 'team', path.join(folder, 'team.jsonl'), (state) => progress.push(state));
  const waiting = Array.from({ length: 20 }, () => 'the hub is not available, next attempt in 0 s');
  assert.deepEqual([rows, progress], [1_200, [...waiting, '1200 rows']]);
});

test('the operator reaches a hub under a prefix, and a page of the console or another server is refused as an address', async (t) => {
  const { url } = await startServer(t, ({ url: path }, response) => {
    response.end(path?.startsWith('/hub/api/namespaces/') ? JSON.stringify({ path }) : '<h1>Not a hub</h1>');
  });
  process.env.CLI_API_TOKEN = 'secret';
  const ask = (/** @type {string} */ address) => requestAsOperator(hubAccess(address, ''), 'team', 'GET', 'tokens');
  assert.deepEqual(await ask(`${url}/hub/`), { path: '/hub/api/namespaces/tokens' });
  assert.throws(
    () => hubAccess(`${url}/hub/sessions/abc`, ''),
    new UsageError(`The address of the hub must not name a page of the console. Use: --hub ${url}/hub`),
  );
  await assert.rejects(ask(url), { message: `${url} does not answer as a hub (status 200).`, hint: 'Check the address: --hub URL.' });
});
