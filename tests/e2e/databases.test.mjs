/** A hub with three databases by its commands, in the real runtime: the list, a move under load, and a deletion. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { runScript } from './lib/product-script.mjs';

const BINDINGS = ['DB', 'DB_2', 'DB_3'];

const hub = await startHub({ after }, { databases: 3, vars: { DATABASES_CLOSED: 'DB_3' } });

/** Runs a command that must succeed. Returns its output. @param {string} script @param {string[]} args */
async function succeed(script, ...args) {
  const { code, output } = await runScript(hub, script, args);
  assert.equal(code, 0, output);
  return output;
}

/** The databases that have rows of a namespace in a table. @param {string} table @param {string} namespace */
async function databasesWith(table, namespace) {
  const found = [];
  for (const binding of BINDINGS) {
    const database = await hub.database(binding);
    const sql = `SELECT count(*) AS count FROM ${table} WHERE namespace IN (?1, '/' || ?1, '//' || ?1)`;
    if (Number(await database.prepare(sql).bind(namespace).first('count')) > 0) found.push(binding);
  }
  return found;
}

/** Reads all messages of a session. @param {string} namespace @param {string} session */
async function readMessages(namespace, session) {
  const messages = [];
  for (let after = 0; ; after = messages.at(-1).seq) {
    const { status, body } = await hub.web(namespace).get(`/api/sessions/${session}/messages?afterSeq=${after}&limit=200`);
    assert.equal(status, 200, JSON.stringify(body));
    messages.push(...body.messages);
    if (!body.hasMore) return messages;
  }
}

test('a namespace moves while its CLI sends, every message is there once, and a deletion leaves no row', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'team', tag: '/code/app', reconnection: true });
  const [from] = await databasesWith('sessions', 'team');
  assert.notEqual(from, 'DB_3');
  const to = from === 'DB' ? 'DB_2' : 'DB';
  for (let number = 1; number <= 300; number += 1) assert.equal((await cli.sendMessage(session.id, `before ${number}`)).ok, true);
  await readMessages('team', session.id);

  let isMoving = true;
  let sent = 0;
  let longestMs = 0;
  const sending = (async () => {
    while (isMoving) {
      const localId = `load-${sent}`;
      const startedAt = performance.now();
      const send = () => cli.sendMessage(session.id, 'during', localId).catch(() => undefined);
      // A CLI sends a message again until it is acknowledged.
      while (!(await send())?.ok) assert.ok(performance.now() - startedAt < 60_000, 'the namespace is closed for longer than a minute');
      longestMs = Math.max(longestMs, performance.now() - startedAt);
      sent += 1;
    }
  })();
  const output = await succeed('databases', 'move', 'team', '--to', to);
  isMoving = false;
  await sending;
  t.diagnostic(`a message waited for at most ${Math.round(longestMs)} ms`);
  assert.match(output, new RegExp(`${to} has team now`));
  assert.deepEqual(await databasesWith('sessions', 'team'), [to]);
  const messages = await readMessages('team', session.id);
  assert.deepEqual(
    pluck(messages.slice(300), 'localId'),
    Array.from({ length: sent }, (_, number) => `load-${number}`),
  );
  assert.equal((await cli.sendMessage(session.id, 'after')).ok, true);

  await succeed('databases', 'move', 'team', '--to', 'DB_3');
  assert.deepEqual(await databasesWith('sessions', 'team'), ['DB_3']);
  assert.equal((await readMessages('team', session.id)).length, 301 + sent);
  const list = JSON.parse(await succeed('databases', 'list', '--json'));
  assert.deepEqual(pluck(list, 'name', 'namespaces', 'isOpen'), [
    ['DB', 0, true],
    ['DB_2', 0, true],
    ['DB_3', 1, false],
  ]);
  assert.ok(list.every(({ bytes, percent }) => bytes > 50_000 && percent > 0 && percent < 1));
  assert.match(await succeed('databases', 'list'), /^DATABASE +SIZE +OF 10 GB +NAMESPACES +ACCEPTS NEW\nDB +\d/);

  await cli.waitForReconnect(() => succeed('namespace', 'delete', 'team', '--yes'));
  cli.close();
  await eventually(async () => (await hub.web('team').get('/api/status')).body.sockets.clis === 0, 'the end of the connection');
  // What the CLI and the status have written.
  await succeed('namespace', 'delete', 'team', '--yes');
  for (const table of ['sessions', 'fences', 'events', 'moved_namespaces', 'namespace_places']) {
    assert.deepEqual(await databasesWith(table, 'team'), [], table);
  }
  assert.deepEqual(hub.storageTables().flat(), []);
});

test('a move says what is wrong', async () => {
  for (const [to, reason] of [
    ['DB_4', /must be one of `DB`, `DB_2`, `DB_3`/],
    ['', /move needs the name of one namespace and --to/],
  ]) {
    await assert.rejects(succeed('databases', 'move', 'team', '--to', String(to)), (error) => RegExp(reason).test(String(error)));
  }
});
