/** The export of a database, as the platform writes it: tables with their rows, then indexes and triggers. */

/** @param {unknown} value of a column */
function toLiteral(value) {
  if (value === null) return 'NULL';
  if (value instanceof Uint8Array) return `X'${Buffer.from(value).toString('hex')}'`;
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
}

/** @param {import('node:sqlite').DatabaseSync} sqlite */
export function dumpSql(sqlite) {
  const parts = sqlite
    .prepare(
      "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .all();
  const statements = ['PRAGMA defer_foreign_keys=TRUE'];
  for (const { name, sql } of parts.filter(({ type }) => type === 'table')) {
    const rows = sqlite.prepare(`SELECT * FROM "${name}"`).all();
    const toInsert = (row) =>
      `INSERT INTO "${name}" (${Object.keys(row).map((column) => `"${column}"`)}) VALUES(${Object.values(row).map(toLiteral)})`;
    statements.push(String(sql), ...rows.map(toInsert));
  }
  statements.push(...parts.filter(({ type }) => type !== 'table').map(({ sql }) => String(sql)));
  return `${statements.join(';\n')};\n`;
}
