// Rewrites a database export, so that D1 can import it.

import { isUtf8 } from 'node:buffer';
import { UserError } from '../../lib/errors.mjs';
import { Rows } from './rows.mjs';
import { createsTrigger, StatementScanner } from './statements.mjs';

/** Limit on the bytes of a written statement. Longer statements are split. D1 accepts 100,000 bytes. */
export const MAX_STATEMENT_BYTES = 90_000;

/** An export writes a text with line breaks as a call of `replace`. The ends of such calls. */
const LINE_BREAK_CALL_ENDS = [',char(10))', ',char(13))'];

/**
 * Rewrites an SQL file: splits INSERT statements above {@link MAX_STATEMENT_BYTES}, repairs JSON (`repairJson`), and moves
 * triggers to the end. All other bytes stay the same. Only one statement and the triggers are in memory.
 * @param {AsyncIterable<Buffer> | Iterable<Buffer>} chunks
 * @param {{statements: number, split: number, repaired: number}} counts increased by the numbers of statements, split statements and
 *   repaired rows
 * @returns {AsyncGenerator<Buffer>}
 * @throws {UserError} when the file is incomplete, or has a long statement that cannot be split
 */
export async function* splitBackup(chunks, counts) {
  const scanner = new StatementScanner();
  const rows = new Rows(MAX_STATEMENT_BYTES);
  const triggers = [];
  for await (const chunk of chunks) {
    for (const statement of scanner.push(chunk)) {
      const { bytes, words } = statement;
      const rewritten = rewrite(statement, rows);
      counts.statements += 1;
      if (rewritten) {
        counts.split += rewritten.isLong ? 1 : 0;
        counts.repaired += rewritten.repaired;
        for (const part of rewritten.statements) yield Buffer.from(`\n${part}`);
      } else if (createsTrigger(statement)) {
        triggers.push(bytes);
      } else {
        if (words.startsWith('CREATE TABLE')) withContext(bytes, () => rows.createTable(bytes.toString()));
        yield bytes;
      }
    }
  }
  if (scanner.isInStatement) throw new UserError('The file ends within a statement: it is not complete.', 'Export the database again.');
  yield* triggers;
  yield scanner.rest;
}

/**
 * @param {import('./statements.mjs').Statement} statement
 * @param {Rows} rows
 * @returns {{isLong: boolean, repaired: number, statements: string[]} | undefined} the statements that replace this statement, and the
 *   number of repaired rows; undefined if the statement stays as it is
 */
function rewrite({ bytes, words }, rows) {
  const isInsert = words.startsWith('INSERT');
  const isLong = bytes.length > MAX_STATEMENT_BYTES;
  if (!isLong && !(isInsert && LINE_BREAK_CALL_ENDS.some((call) => bytes.includes(call)))) return undefined;
  return withContext(bytes, () => {
    if (!isInsert) throw new UserError('Only an INSERT can be split.');
    if (!isUtf8(bytes)) throw new UserError('It is not valid UTF-8.');
    const { repaired, statements } = rows.parse(bytes.toString());
    return isLong || repaired > 0 ? { isLong, repaired, statements: statements() } : undefined;
  });
}

/**
 * @template T
 * @param {Buffer} bytes the statement
 * @param {() => T} handleStatement
 * @returns {T}
 * @throws {UserError} the error of `handleStatement`, with the statement
 */
function withContext(bytes, handleStatement) {
  try {
    return handleStatement();
  } catch (error) {
    if (!(error instanceof UserError) && error.code !== 'ERR_SQLITE_ERROR') throw error;
    const start = bytes.toString('utf8', 0, 1_000).trim().slice(0, 80);
    const hint = /^no such table/.test(error.message) ? 'Export the whole database, with its schema.' : undefined;
    throw new UserError(`This statement of ${bytes.length} bytes cannot be imported: ${start}…\n${error.message}`, hint);
  }
}
