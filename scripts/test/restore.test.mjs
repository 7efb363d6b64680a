/** The query of docs/MAINTENANCE.md for the devices that a restore of the database makes valid again. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { ROOT } from '../lib/paths.mjs';

test('the devices that were revoked after the point in time of a restore are listed', () => {
  const page = readFileSync(`${ROOT}/docs/MAINTENANCE.md`, 'utf8');
  const [devices, generations] = [...page.matchAll(/--command "(SELECT [^"]* FROM (?:devices|namespaces)\b[^"]*)"/g)].map(([, sql]) => sql);
  const [, time] = /time-travel restore DB --timestamp (\S+)/.exec(page);
  assert.ok(devices.includes(`'${time}'`), 'the query and the restore have the same time');
  const database = new DatabaseSync(':memory:');
  for (const name of readdirSync(`${ROOT}/migrations`).sort()) database.exec(readFileSync(`${ROOT}/migrations/${name}`, 'utf8'));
  const insert = database.prepare("INSERT INTO devices VALUES (?1, 'team', ?1, 'phone', ?1, 1, 1, ?2)");
  for (const [id, ms] of Object.entries({ before: -1, after: 1 })) insert.run(id, Date.parse(time) + ms);
  insert.run('valid', null);
  database.exec("INSERT INTO namespaces (namespace, generation) VALUES ('team', 2)");
  const rowsOf = (sql, ...names) =>
    database
      .prepare(sql)
      .all()
      .map((row) => names.map((name) => row[name]));
  assert.deepEqual(rowsOf(devices, 'namespace', 'id'), [['team', 'after']]);
  assert.deepEqual(rowsOf(generations, 'namespace', 'generation'), [['team', 2]]);
});
