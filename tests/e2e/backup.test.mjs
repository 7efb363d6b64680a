/** The backup of docs/MAINTENANCE.md with the real wrangler: export, `npm run split-backup`, and import into an empty database. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { LOCAL_COMMAND_ENV, wranglerCommand } from '../../scripts/product/hub/wrangler.mjs';
import { openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const run = promisify(execFile);

const CONFIG = `name = "hub"
compatibility_date = "2026-07-30"
[[d1_databases]]
binding = "DB"
database_name = "hub"
database_id = "hub"
`;

/** Returns a text of at most `bytes` bytes, with characters that SQL and JSON escape. */
const textToEscape = (bytes) => `it's "quoted"\n\\n; ä€😀\t`.repeat(bytes / 32);

test('every row of an exported database with large rows is restored into an empty database', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-backup-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const [source, target] = ['source', 'target'].map((name) => path.join(folder, name));
  for (const project of [source, target]) {
    mkdirSync(project);
    writeFileSync(path.join(project, 'wrangler.toml'), CONFIG);
  }
  await fillDatabase(t, source);

  const backup = path.join(folder, 'backup.sql');
  const script = path.join(ROOT, 'scripts', 'product', 'wrangler.mjs');
  await run(process.execPath, [script, 'd1', 'export', 'DB', '--local', '--output', backup, '--cwd', source], {
    env: { ...process.env, ...LOCAL_COMMAND_ENV },
  });
  // The backup contains the hub's signing keys.
  if (process.platform !== 'win32') assert.equal(statSync(backup).mode & 0o777, 0o600);
  await assert.rejects(runWrangler(target, 'd1', 'execute', 'DB', '--local', '--file', backup), ({ stdout, stderr }) =>
    /statement too long/.test(stdout + stderr),
  );

  const split = path.join(folder, 'split.sql');
  const { stdout, stderr } = await run(process.execPath, [
    path.join(ROOT, 'scripts', 'product', 'split-backup.mjs'),
    backup,
    '--out',
    split,
  ]);
  assert.match(
    stdout,
    /Long statements that were split: [5-9]\.\nRows whose JSON the export had changed, and which were repaired: [2-9]\./,
  );
  assert.equal(stderr, '');
  await runWrangler(target, 'd1', 'execute', 'DB', '--local', '--file', split);

  const [original, restored] = [source, target].map(readDatabase);
  for (const column of /** @type {const} */ ([
    'sessions.metadata',
    'sessions.agent_state',
    'messages.content',
    'message_parts.content',
    'events.body',
  ])) {
    const [table, name] = column.split('.');
    const lengths = original.find((part) => part.name === table).rows.map((row) => String(row[name] ?? '').length);
    assert.ok(Math.max(...lengths) > 120_000, `${column}: ${lengths}`);
  }
  assert.ok(original.length >= 20, `${original.length} tables, indexes and triggers`);
  assert.deepEqual(pluck(restored, 'name'), pluck(original, 'name'));
  for (const [i, { name, sql, rows }] of original.entries()) {
    assert.equal(restored[i].sql, sql, name);
    // `deepEqual` would print the large rows.
    assert.ok(isDeepStrictEqual(restored[i].rows, rows), `the rows of ${name} differ`);
  }
});

/** Runs a hub, stores large rows of several tables in its database, and copies the database into the state of a wrangler project. */
async function fillDatabase(t, project) {
  const hub = await startHub(t);
  const metadata = { path: '/code', host: 'box', note: textToEscape(300_000) };
  const { session, cli } = await liveSession(t, hub, { namespace: 'backup', tag: 'large', metadata });
  await openFeed(t, hub.web('backup'), 'socket', { all: 'true', sessionId: session.id });
  const agentState = { requests: {}, note: textToEscape(300_000) };
  const { result } = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: session.agentStateVersion, agentState });
  assert.equal(result, 'success');
  const sizes = [100, 1_000_000, 200_000, 3_000_000, 10];
  for (const size of sizes) {
    const ack = await cli.sendMessage(session.id, { text: textToEscape(size) }, `it's ${size}`);
    assert.equal(ack.ok, true);
  }
  // The hub stores JSON as it was written, here with line breaks.
  const response = await fetch(`${hub.url}/cli/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${hub.token('backup')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tag: 'indented', metadata: { ...metadata, note: textToEscape(1_000) } }, null, 2),
  });
  assert.equal(response.ok, true, String(response.status));
  hub.copyDatabase(path.join(project, '.wrangler', 'state', 'v3', 'd1'));
}

/** @param {string} cwd the folder of a wrangler project @param {...string} args */
function runWrangler(cwd, ...args) {
  const [command, commandArgs] = wranglerCommand(args);
  return run(command, commandArgs, { cwd, env: { ...process.env, ...LOCAL_COMMAND_ENV } });
}

/** The tables, indexes and triggers of a project's local database, with all rows. */
function readDatabase(project) {
  const folder = path.join(project, '.wrangler', 'state', 'v3', 'd1', 'miniflare-D1DatabaseObject');
  const [file, ...others] = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  assert.deepEqual(others, []);
  const database = new DatabaseSync(path.join(folder, file));
  const parts = database
    .prepare("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name")
    .all();
  const read = ({ type, name, sql }) => ({ name, sql, rows: type === 'table' ? database.prepare(`SELECT * FROM "${name}"`).all() : [] });
  const contents = parts.map((part) => read(/** @type {any} */ (part)));
  database.close();
  return contents;
}
