// Tests of `npm run split-backup`.

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { MAX_STATEMENT_BYTES, splitBackup } from '../product/backup/split.mjs';
import { StatementScanner } from '../product/backup/statements.mjs';
import { UserError } from '../lib/errors.mjs';
import { ROOT } from '../lib/paths.mjs';

const SCRIPT = fileURLToPath(new URL('../product/split-backup.mjs', import.meta.url));
const MIGRATIONS = new URL('../../migrations/', import.meta.url);

/** @returns {string[]} the statements of a text that arrives in chunks of `size` bytes, and the text after the last statement */
function scanStatements(text, size) {
  const scanner = new StatementScanner();
  return [
    ...chunksOf(text, size).flatMap((chunk) => [...scanner.push(chunk)].map(({ bytes }) => bytes.toString())),
    scanner.rest.toString(),
  ];
}

function chunksOf(text, size = 65_536) {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

/** @returns {Promise<{text: string, counts: Record<string, number>}>} */
async function split(text) {
  const counts = { statements: 0, split: 0, repaired: 0 };
  const parts = [];
  for await (const part of splitBackup(chunksOf(text), counts)) parts.push(part);
  return { text: Buffer.concat(parts).toString(), counts };
}

/** Imports an SQL file. As in D1, a statement above the limit is an error. @returns the exact rows of the tables */
function importText(text) {
  const statements = scanStatements(text, 65_536);
  const longest = Math.max(...statements.map((statement) => Buffer.byteLength(statement)));
  assert.ok(longest <= MAX_STATEMENT_BYTES, `a statement has ${longest} bytes`);
  return rowsAfter(text);
}

function rowsAfter(text) {
  const database = new DatabaseSync(':memory:');
  database.exec('BEGIN');
  database.exec(text);
  database.exec('COMMIT');
  const tables = database.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").all();
  return tables.map(({ name, sql }) => {
    const table = quoted(name);
    const columns = database
      .prepare(`PRAGMA table_info(${table})`)
      .all()
      .map((column) => quoted(column.name));
    const cells = columns.map(
      (column) =>
        `typeof(${column}), CASE WHEN typeof(${column}) IN ('text', 'blob') THEN CAST(${column} AS BLOB) ELSE quote(${column}) END`,
    );
    const select = database.prepare(`SELECT ${cells.join(', ')} FROM ${table}`);
    select.setReturnArrays(true);
    return { name, sql, rows: select.all() };
  });
}

const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
const literal = (text) => `'${text.replaceAll("'", "''")}'`;

test('statements end at semicolons outside of quotes, comments and triggers', () => {
  const statements = [
    'PRAGMA defer_foreign_keys=TRUE;',
    `\nCREATE TABLE "a;b" ( -- it's a comment;\n  [c;] TEXT, /* ; ' */ \`d;\` TEXT /* /*/);`,
    `\n/**/INSERT INTO "a;b" VALUES('it''s; \n--', - - 1, X'3B');`,
    '\nCREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = CASE WHEN 1 THEN 2 END; DELETE FROM b; END;',
    "\ncreate temp trigger t after delete on a begin select ';END;'; end ;",
    '\n--x\n-- ;\n- 1;',
  ];
  const text = `${statements.join('')}\n-- the end`;
  for (const size of [1, 2, 3, 7, 1_000])
    assert.deepEqual(scanStatements(text, size), [...statements, '\n-- the end'], `chunks of ${size} bytes`);
});

test('a file without long statements is not changed', async () => {
  const text = `PRAGMA defer_foreign_keys=TRUE;\r\nCREATE TABLE "t" (id TEXT PRIMARY KEY, v);\nINSERT INTO "t" ("id","v") VALUES('ä;\n','${'x'.repeat(80_000)}');\nCREATE INDEX i ON t (v);\nCREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;\n`;
  assert.deepEqual(await split(text), { text, counts: { statements: 5, split: 0, repaired: 0 } });
});

const LONG_LITERALS = {
  text: literal('x'.repeat(200_000)),
  quotes: literal("'".repeat(50_000)),
  'characters of 2 to 4 bytes': literal(`a${'ä€😀'.repeat(20_000)}`),
  'quotes between characters of 4 bytes': literal("😀'".repeat(20_000)),
  SQL: literal(';--/*'.repeat(20_000)),
  'line feeds, as exports have them': `replace(${literal('é\\n;'.repeat(20_000))},'\\n',char(10))`,
  'line breaks, as exports have them': `replace(replace(${literal('é\\r\\n;'.repeat(20_000))},'\\r',char(13)),'\\n',char(10))`,
  'a blob': `X'${'00ff27c3'.repeat(20_000)}'`,
  'text with NUL': `CAST(X'${'6100'.repeat(30_000)}' AS TEXT)`,
  'text that is not UTF-8': `CAST(X'${'80ff8080'.repeat(20_000)}' AS TEXT)`,
};

const NUMBERS = 'NULL -9223372036854775808 9223372036854775807 0.1 1e300 -9e999 5e-324 1.0';
const SHORT_LITERALS = [...NUMBERS.split(' '), "''", "X''", "X'00'", literal("it's\n"), literal('1')];

/** @type {[table: string, end: string, nullable?: boolean][]} */
const TABLES = [
  ['id TEXT PRIMARY KEY, n', ''],
  ['id TEXT PRIMARY KEY, n', ' WITHOUT ROWID'],
  ['id INTEGER PRIMARY KEY AUTOINCREMENT, n', ''],
  ['id REAL, n TEXT', ', PRIMARY KEY (n, id))'],
  ['id, n', ''],
  ['id, n PRIMARY KEY', '', true],
  ['id, n', ', sum GENERATED ALWAYS AS (length(a)) STORED, UNIQUE (a, b, c, id))'],
];
for (const [table, end, nullable] of TABLES) {
  test(`long rows keep their values and types: ${table}${end}`, async () => {
    const values = Object.values(LONG_LITERALS);
    const rows = [
      ...values.flatMap((value) => [
        [value, 'NULL', '7'],
        ['1.5', value, "''"],
        ["X''", "'1'", value],
      ]),
      ...SHORT_LITERALS.map((value, i) => [values[i % values.length], value, value]),
      values.slice(0, 3),
      values.slice(5, 8),
      [literal('y'.repeat(89_780)), 'NULL', `CAST(X'${'80'.repeat(99_000)}' AS TEXT)`],
      [89_000, 89_000, 100].map((length) => literal('y'.repeat(length))),
    ];
    const inserts = rows.map(
      (row, i) => `INSERT INTO "t ""1" ("id","n","a","b","c") VALUES(${[i + 1, nullable ? 'NULL' : `'n''${i}\n'`, ...row].join(',')});`,
    );
    const text = [
      'CREATE TABLE other (a);',
      `CREATE TABLE "t ""1" (${table}, a TEXT, b BLOB, c${end.startsWith(',') ? end : `)${end}`};`,
      "INSERT INTO other VALUES('a');",
      ...inserts,
      `INSERT INTO other VALUES('b'), (${values[0]}), (${values[1]});`,
      '',
    ].join('\n');
    const result = await split(text);
    assert.equal(result.counts.split, inserts.length + 1);
    assert.deepEqual(importText(result.text), rowsAfter(text));
  });
}

test('line breaks that an export has put into JSON in place of their escapes become escapes again', async () => {
  const escaped = JSON.stringify({ 'a\n"\r\n': ['\\n\\\n\\r', '\t\r\\'], b: '' }, null, 2);
  const texts = [
    escaped,
    escaped.replaceAll('\n', '\r\n'),
    escaped.replaceAll('\n', '\r'),
    `\n${escaped}\r\n`,
    JSON.stringify('\n'.repeat(99)).replace('n', 'n\\\\'),
    `["${'ä\\n'.repeat(50_000)}",\n"\\\\n"]`,
    '1\ts"a"\t{"a":"\\n"}\n12\tr"\\\\n"\t7\n',
    JSON.stringify({ a: '\n' }),
    'no JSON "\n"',
    '',
  ];
  const exported = (text) => {
    const withoutCr = literal(text.replaceAll('\n', '\\n').replaceAll('\r', '\\r'));
    const withCr = text.includes('\r') ? `replace(${withoutCr},'\\r',char(13))` : withoutCr;
    return text.includes('\n') ? `replace(${withCr},'\\n',char(10))` : withCr;
  };
  const file = (write) => `CREATE TABLE t (v TEXT);\n${texts.map((text) => `INSERT INTO t VALUES(${write(text)});\n`).join('')}`;
  const { text, counts } = await split(file(exported));
  assert.deepEqual(importText(text), rowsAfter(file(literal)));
  assert.deepEqual(counts, { statements: 1 + texts.length, split: 1, repaired: 6 });
});

test('an incomplete JSON value with line breaks is not changed', async () => {
  const parts = ['"a\\n\\\\n":\\n[', '",\\n"a', '1\\tc"a"\\t"\\n'];
  const text = `CREATE TABLE t (v TEXT);\n${parts.map((part) => `INSERT INTO t VALUES(replace('${part}','\\n',char(10)));\n`).join('')}`;
  assert.deepEqual(await split(text), { text, counts: { statements: 4, split: 0, repaired: 0 } });
});

test('triggers are created after the rows, so that the triggers do not change the rows', async () => {
  const trigger = '\nCREATE TRIGGER g AFTER UPDATE ON t BEGIN UPDATE t SET n = n + 1; END;';
  const row = `\nINSERT INTO t VALUES(1,${LONG_LITERALS.text},0);`;
  const table = '\nCREATE TABLE t (id INTEGER PRIMARY KEY, v, n);';
  const { text } = await split(`${table}${trigger}${row}\n`);
  assert.deepEqual(importText(text), rowsAfter(`${table}${row}`));
  assert.ok(text.endsWith(`${trigger}\n`));
});

test('long rows of the schema of the migrations are restored, with its triggers', async () => {
  const migrations = readdirSync(MIGRATIONS)
    .sort()
    .map((name) => readFileSync(new URL(name, MIGRATIONS), 'utf8'));
  const database = new DatabaseSync(':memory:');
  for (const sql of migrations) database.exec(sql);
  const schema = (types) =>
    database
      .prepare('SELECT type, sql FROM sqlite_schema WHERE sql NOT NULL')
      .all()
      .filter(({ type }) => types.includes(type))
      .map(({ sql }) => `${sql};`);
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const inserts = tables.map(({ name }) => {
    const columns = database.prepare(`PRAGMA table_info("${name}")`).all();
    const cells = columns.map(({ type, pk }, i) =>
      pk ? (type === 'TEXT' ? "'s1'" : 1) : type === 'TEXT' ? literal(`${i}'ä`.repeat(50_000)) : i,
    );
    return `INSERT INTO "${name}" (${columns.map((column) => `"${column.name}"`).join(',')}) VALUES(${cells.join(',')});`;
  });
  const lines = [...schema(['table']), ...inserts, ...schema(['index']), ...schema(['trigger'])].map((line) => `${line}\n`);
  const text = `PRAGMA defer_foreign_keys=TRUE;\n${lines.join('')}`;
  const result = await split(text);
  assert.ok(result.counts.split >= 7, `${result.counts.split} rows`);
  assert.deepEqual(importText(result.text), rowsAfter(text));
});

test('a statement that cannot be split is refused with the reason', async () => {
  const table = 'CREATE TABLE t (id PRIMARY KEY, n INTEGER, j CHECK (json_valid(j)));\n';
  /** @type {[string, RegExp][]} */
  const refusals = [
    [`${table}INSERT INTO t (id) VALUES('a`, /ends within a statement/],
    [`${table}INSERT INTO t (id) VALUES(1)`, /ends within a statement/],
    [
      `${table}INSERT INTO t (id) VALUES(${LONG_LITERALS.text});`,
      /^This statement of 200031 bytes cannot be imported: INSERT INTO t \(id\) VALUES\('x+…\n.*too long a primary key/s,
    ],
    [`${table}INSERT INTO t (n) VALUES('${'1'.repeat(100_000)}x');`, /"t" cannot be stored in parts/],
    [`${table}INSERT INTO t (j) VALUES('["${'1'.repeat(100_000)}"]');`, /CHECK constraint failed/],
    [`INSERT INTO t VALUES(${LONG_LITERALS.text});`, /no such table: t/],
    [`${table}UPDATE t SET n = ${LONG_LITERALS.text};`, /Only an INSERT/],
    [`${table}INSERT INTO t (id) SELECT 1 WHERE ${LONG_LITERALS.text} = '';`, /inserts no row/],
    ['CREATE TABLE t (id, id);', /duplicate column name/],
  ];
  for (const [text, message] of refusals) {
    await assert.rejects(split(text), (error) => error instanceof UserError && message.test(error.message), String(message));
  }
});

test('git ignores exports in the project, and tracks migrations', () => {
  const isIgnored = (file) => spawnSync('git', ['check-ignore', '--quiet', '--no-index', file], { cwd: ROOT }).status === 0;
  const files = ['backup.sql', 'backup-split.sql', 'docs/export.sql', 'migrations/0099_new.sql'];
  assert.deepEqual(files.map(isIgnored), [true, true, true, false]);
});

test('the command writes a new file, and refuses to overwrite a file', async (t) => {
  const folder = tempDir(t);
  const run = (...args) =>
    new Promise((resolve) =>
      execFile(process.execPath, [SCRIPT, ...args], { cwd: folder }, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      ),
    );
  const file = (name) => path.join(folder, name);
  const text = `CREATE TABLE t (id PRIMARY KEY, v);\nINSERT INTO t VALUES(1,${LONG_LITERALS.text});\n`;
  writeFileSync(file('backup.sql'), text);
  writeFileSync(file('broken.sql'), text.slice(0, -3));

  const first = await run('backup.sql');
  assert.deepEqual([first.code, first.stderr], [0, '']);
  assert.match(first.stdout, /backup-split\.sql: 2 statements\. Long statements that were split: 1\.\n[^]*--file .*backup-split\.sql\n$/);
  assert.deepEqual(importText(readFileSync(file('backup-split.sql'), 'utf8')), rowsAfter(text));
  // The file has the hub's signing keys.
  if (process.platform !== 'win32') assert.equal(statSync(file('backup-split.sql')).mode & 0o777, 0o600);

  /** @type {[string[], number, RegExp][]} */
  const refusals = [
    [['backup.sql'], 1, /backup-split\.sql exists\.\nDelete it/],
    [['backup.sql', '--out', 'backup.sql'], 1, /backup\.sql exists\./],
    [['missing.sql'], 1, /There is no file .*missing\.sql/],
    [['backup.sql', '--out', 'missing/b.sql'], 1, /There is no folder .*missing/],
    [['broken.sql'], 1, /ends within a statement/],
    [[], 2, /Give one file/],
    [['backup.sql', 'broken.sql'], 2, /Give one file/],
  ];
  for (const [args, code, message] of refusals) {
    const result = await run(...args);
    assert.deepEqual([result.code, result.stdout], [code, ''], args.join(' '));
    assert.match(result.stderr, message);
  }
  assert.deepEqual(readdirSync(folder).sort(), ['backup-split.sql', 'backup.sql', 'broken.sql']);
  assert.equal(readFileSync(file('backup.sql'), 'utf8'), text);

  const second = await run('backup.sql', '--out', 'other.sql');
  assert.match(second.stdout, /other\.sql: /);
  assert.match((await run('--help')).stdout, /^Usage: npm run split-backup/);
});
