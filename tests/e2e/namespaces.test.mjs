/** The life of a namespace by its commands, in the real runtime: export, deletion and import. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';
import { runScript } from './lib/product-script.mjs';

const hub = await startHub({ after });

const run = (...args) => runScript(hub, 'namespace', args);

/** Runs a command that must succeed. Returns its output. @param {string[]} args */
async function succeed(...args) {
  const { code, output } = await run(...args);
  assert.equal(code, 0, output);
  return output;
}

/** The number of the rows of all tables of the database, without the hub's own secrets. */
async function countRows() {
  const db = await hub.database();
  const { results } = await db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const tables = results.map(({ name }) => String(name)).filter((name) => !/^(_cf|sqlite)_|^secrets$/.test(name));
  assert.ok(tables.length > 10, tables.join());
  let rows = 0;
  for (const table of tables) {
    rows += Number((await db.prepare(`SELECT count(*) AS count FROM ${table}`).first('count')) ?? 0);
  }
  return rows;
}

test('a namespace is exported while it is used, deleted without a trace, and imported', async (t) => {
  const folder = temporaryFolder(t);
  const file = path.join(folder, 'team.jsonl');
  const { session, cli } = await liveSession(t, hub, { namespace: 'team', tag: '/code/app', reconnection: true });
  for (let number = 1; number <= 300; number += 1) assert.equal((await cli.sendMessage(session.id, `text\u2028 ${number}`)).ok, true);
  assert.match(await succeed('export', 'team', '--output', file), /has 301 rows/);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const { code, output } = await run('export', 'team', '--output', file);
  assert.deepEqual([code, /exists/.test(output)], [1, true], output);

  const refused = await run('delete', 'team');
  assert.deepEqual([refused.code, /--yes/.test(refused.output)], [1, true], refused.output);
  await cli.waitForReconnect(() => succeed('delete', 'team', '--yes'));
  cli.close();
  await eventually(async () => (await hub.web('team').get('/api/status')).body.sockets.clis === 0, 'the end of the connection');
  // What the CLI and the status have written.
  await succeed('delete', 'team', '--yes');
  assert.equal(await countRows(), 0);
  assert.deepEqual(hub.storageTables().flat(), []);

  assert.match(await succeed('import', file), /301 rows were imported/);
  const again = path.join(folder, 'again.jsonl');
  await succeed('export', 'team', '--output', again);
  assert.equal(readFileSync(again, 'utf8'), readFileSync(file, 'utf8'));
  const { body } = await hub.web('team').get(`/api/sessions/${session.id}/messages?limit=2`);
  assert.deepEqual(pluck(body.messages, 'seq'), [300, 299]);
  const resumed = await liveSession(t, hub, { namespace: 'team', tag: '/code/app' });
  assert.equal(resumed.session.id, session.id);
  assert.equal((await resumed.cli.sendMessage(session.id, 'and on')).ok, true);
});

test('an import that was interrupted continues, and an incomplete file is refused', async (t) => {
  const folder = temporaryFolder(t);
  const file = path.join(folder, 'big.jsonl');
  const { session, cli } = await liveSession(t, hub, { namespace: 'big', tag: '/big' });
  for (let number = 1; number <= 40; number += 1) assert.equal((await cli.sendMessage(session.id, 'x'.repeat(500_000))).ok, true);
  cli.close();
  await succeed('export', 'big', '--output', file);
  const incomplete = path.join(folder, 'incomplete.jsonl');
  writeFileSync(incomplete, readFileSync(file, 'utf8').split('\n').slice(0, 20).join('\n'));
  const cut = await run('import', incomplete);
  assert.deepEqual([cut.code, /not a complete export/.test(cut.output)], [1, true], cut.output);

  await succeed('delete', 'big', '--yes');
  const rows = readFileSync(file, 'utf8')
    .split('\n')
    .slice(1, 11)
    .map((line) => JSON.parse(line));
  for (const step of [{ step: 'begin' }, { step: 'rows', rows }])
    assert.equal((await hub.web('big').post('/api/namespaces/import', step)).status, 200);
  await hub.restart();
  const { status, body } = await hub.web('big').get('/api/sessions');
  assert.deepEqual([status, body.code], [503, 'hub_unavailable']);
  const repeated = await run('import', file);
  assert.deepEqual([repeated.code, /--continue|has data/.test(repeated.output)], [1, true], repeated.output);
  await succeed('import', file, '--continue');
  const again = path.join(folder, 'again.jsonl');
  await succeed('export', 'big', '--output', again);
  assert.ok(readFileSync(again, 'utf8') === readFileSync(file, 'utf8'));
  assert.ok(!existsSync(`${again}.partial`));
});
