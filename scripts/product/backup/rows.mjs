// Writes the rows of an INSERT statement as several short statements.

import { isUtf8 } from 'node:buffer';
import { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { UserError } from '../../lib/errors.mjs';
import { repairJson } from './json.mjs';

const QUOTE = 0x27;

/**
 * @typedef {object} Column
 * @property {string} name quoted
 * @property {boolean} isKey whether the column is a part of the primary key
 *
 * @typedef {object} Value a value with `bytes` (text, blob), or with `literal` (integer, real, null)
 * @property {'text' | 'blob' | 'integer' | 'real' | 'null'} type
 * @property {string} [literal]
 * @property {Buffer} [bytes]
 * @property {boolean} [asHex] whether the literal has hexadecimal digits
 */

/** Parses and splits rows. Uses a database in memory, which has the tables of the export. */
export class Rows {
  #database = new DatabaseSync(':memory:', { enableForeignKeyConstraints: false });
  #maxBytes;
  /** @type {Map<string, Column[]>} by the quoted name of the table */
  #tables = new Map();

  /** @param {number} maxBytes the longest statement that is returned */
  constructor(maxBytes) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Creates a table without the indexes and triggers of the export, because an import, too, creates these only after the rows.
   * @param {string} sql CREATE TABLE
   */
  createTable(sql) {
    this.#database.exec(sql);
    const names = this.#database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
      .all();
    this.#tables = new Map(names.map(({ name }) => quoteIdentifier(String(name))).map((name) => [name, this.#columns(name)]));
  }

  /** Returns the columns of a table, without generated columns. @returns {Column[]} */
  #columns(table) {
    const columns = this.#database.prepare(`PRAGMA table_info(${table})`).all();
    return columns.map(({ name, pk }) => ({ name: quoteIdentifier(String(name)), isKey: Number(pk) > 0 }));
  }

  /**
   * @param {string} insert
   * @returns {{repaired: number, statements: () => string[]}} `repaired`: how many rows had line breaks that `d1 export`
   *   had written wrongly. `statements`: returns the statements that store the rows, in order; throws a UserError if these statements would
   *   store other values
   * @throws {UserError} when the statement inserts no row
   */
  parse(insert) {
    this.#database.prepare(insert).run();
    for (const [table, columns] of this.#tables) {
      const exported = this.#takeRows(table, columns);
      if (exported.length === 0) continue;
      const rows = exported.map((row) => row.map(repairValue));
      const repaired = rows.filter((row, r) => row.some((value, i) => value !== exported[r][i])).length;
      return { repaired, statements: () => rows.flatMap((row) => this.#splitAndVerify(table, columns, row)) };
    }
    throw new UserError('It inserts no row.');
  }

  /** Deletes and returns the rows of a table. @returns {Value[][]} */
  #takeRows(table, columns) {
    const cells = columns.map(
      ({ name }) => `typeof(${name}), CASE WHEN typeof(${name}) IN ('text', 'blob') THEN CAST(${name} AS BLOB) ELSE quote(${name}) END`,
    );
    const select = this.#database.prepare(`SELECT ${cells.join(', ')} FROM ${table}`);
    select.setReturnArrays(true);
    const rows = select.all();
    if (rows.length > 0) this.#database.exec(`DELETE FROM ${table}`);
    return rows.map((row) => columns.map((_, i) => toValue(row[2 * i], row[2 * i + 1])));
  }

  /**
   * @param {string} table
   * @param {Column[]} columns
   * @param {Value[]} row
   */
  #splitAndVerify(table, columns, row) {
    const statements = this.#splitRow(table, columns, row);
    for (const statement of statements) this.#database.exec(statement);
    // While only the first part of a value is stored, the column may convert this part (the text '12' to a number), or a constraint may
    // reject it.
    if (!isDeepStrictEqual(this.#takeRows(table, columns), [row])) {
      throw new UserError(`A row of the table ${table} cannot be stored in parts.`);
    }
    return statements;
  }

  #splitRow(table, columns, row) {
    const canBeSplit = (i) => !columns[i].isKey && row[i].bytes !== undefined;
    const literals = row.map((value, i) => (canBeSplit(i) ? emptyLiteral(value) : literal(value)));
    const insert = () => `INSERT INTO ${table} (${columns.map(({ name }) => name).join(',')}) VALUES(${literals.join(',')});`;
    const condition = keyCondition(table, columns, row);

    // Short values first, so that they are stored whole: the first part of a value could violate a UNIQUE constraint.
    const order = [...row.keys()].filter(canBeSplit).sort((a, b) => row[a].bytes.length - row[b].bytes.length);
    let maxPartBytes = this.#remainingBytes(table, insert());
    const updates = [];
    for (const i of order) {
      const { part, rest } = firstPart(row[i], maxPartBytes);
      maxPartBytes -= Buffer.byteLength(literal(part)) - literals[i].length;
      literals[i] = literal(part);
      updates.push(...this.#updates(table, columns[i].name, rest, condition));
    }
    return [insert(), ...updates];
  }

  /** Returns the statements that append `value` to a column. A blob needs CAST, because `||` returns text. */
  #updates(table, column, value, condition) {
    const [before, after] = value.type === 'blob' ? ['CAST(', ' AS BLOB)'] : ['', ''];
    const update = (part) => `UPDATE ${table} SET ${column} = ${before}${column} || ${part}${after} WHERE ${condition};`;
    const maxPartBytes = this.#remainingBytes(table, update(emptyLiteral(value)));
    const updates = [];
    for (let rest = value; rest.bytes.length > 0; ) {
      const next = firstPart(rest, maxPartBytes);
      updates.push(update(literal(next.part)));
      rest = next.rest;
    }
    return updates;
  }

  /** Returns how many bytes can be added to a statement with empty literals. One byte is for the line break. */
  #remainingBytes(table, statement) {
    const maxPartBytes = this.#maxBytes - Buffer.byteLength(statement) - 1;
    // A part must have room for one character, which has at most four bytes of UTF-8: eight hexadecimal digits.
    if (maxPartBytes < 8) throw new UserError(`A row of the table ${table} has too long a primary key.`);
    return maxPartBytes;
  }
}

/** @param {string} name @returns {string} the SQL identifier */
const quoteIdentifier = (name) => `"${name.replaceAll('"', '""')}"`;

/** @returns {Value} */
function toValue(type, value) {
  if (typeof value === 'string') return { type, literal: value };
  return { type, bytes: Buffer.from(value), asHex: type === 'blob' || needsHexLiteral(value) };
}

/** @param {Value} value @returns {Value} the same object if the value needs no repair */
function repairValue(value) {
  if (value.type !== 'text') return value;
  const bytes = repairJson(value.bytes);
  return bytes === value.bytes ? value : toValue('text', bytes);
}

/** Whether text needs a hexadecimal literal, because importers read line breaks differently, and SQL text ends at NUL. */
function needsHexLiteral(bytes) {
  return [0, 0x0a, 0x0d].some((byte) => bytes.includes(byte)) || !isUtf8(bytes);
}

/** @param {Value} value @returns {string} */
function literal({ type, literal: number, bytes, asHex }) {
  if (bytes === undefined) return number;
  if (!asHex) return `'${bytes.toString().replaceAll("'", "''")}'`;
  const hex = `X'${bytes.toString('hex')}'`;
  return type === 'blob' ? hex : `CAST(${hex} AS TEXT)`;
}

/** Returns the literal of an empty value, in the same form as the literal of `value`. @param {Value} value @returns {string} */
const emptyLiteral = (value) => literal({ ...value, bytes: value.bytes.subarray(0, 0) });

/**
 * Splits a value between two characters.
 * @param {Value} value
 * @param {number} maxPartBytes how many bytes the part may add to an empty literal, which is `''` or `X''`
 * @returns {{part: Value, rest: Value}}
 */
function firstPart(value, maxPartBytes) {
  const { type, bytes, asHex } = value;
  let end = 0;
  for (let used = 0; end < bytes.length; end += 1) {
    used += asHex || bytes[end] === QUOTE ? 2 : 1;
    if (used > maxPartBytes) break;
  }
  // A character has at most three continuation bytes. Text that is not UTF-8 may have more.
  const limit = Math.max(0, end - 3);
  while (type === 'text' && end > limit && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return { part: { ...value, bytes: bytes.subarray(0, end) }, rest: { ...value, bytes: bytes.subarray(end) } };
}

/**
 * @param {string} table
 * @param {Column[]} columns
 * @param {Value[]} row
 * @returns {string} a WHERE condition that selects only this row, if no other row was inserted since
 */
function keyCondition(table, columns, row) {
  const key = [...columns.keys()].filter((i) => columns[i].isKey);
  // The row has no key that can identify it. An INTEGER PRIMARY KEY is never NULL, so the table has none. Therefore SQLite has assigned
  // the rowid, and the row that was inserted last has the largest rowid.
  if (key.length === 0 || key.some((i) => row[i].type === 'null')) return `rowid = (SELECT max(rowid) FROM ${table})`;
  return key.map((i) => `${columns[i].name} = ${literal(row[i])}`).join(' AND ');
}
