// The export of a namespace to a file: JSON lines, in the format of docs/design/namespaces.md.

import { createReadStream, existsSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { parseJson } from '../../lib/json.mjs';
import { requestAsOperator, isNamespace } from './operator.mjs';

const FORMAT = 'session-gateway-namespace';
/** Increased when a hub can no longer import older files. */
const FORMAT_VERSION = 1;

/** A chunk of an import has at most this many rows and, if it has more than one row, about this many characters. */
const MAX_CHUNK_ROWS = 500;
const MAX_CHUNK_CHARS = 2_000_000;

/**
 * Exports a namespace. The file appears under its name when it is complete; only its owner can read it.
 * @param {import('./operator.mjs').HubAccess} hub
 * @param {string} namespace
 * @param {string} file
 * @param {(state: string) => void} update
 * @returns {Promise<number>} the number of rows
 */
export async function exportNamespace(hub, namespace, file, update) {
  if (existsSync(file)) throw new UserError(`The file ${file} exists.`, 'Give another name with --output FILE.');
  const partial = `${file}.partial`;
  rmSync(partial, { force: true });
  const output = await open(partial, 'wx', 0o600);
  try {
    let rows = 0;
    await output.writeFile(`${JSON.stringify({ format: FORMAT, version: FORMAT_VERSION, namespace })}\n`);
    for (let path = 'export'; path !== ''; ) {
      const page = await requestAsOperator(hub, namespace, 'GET', path, undefined, update);
      rows += page.rows.length;
      await output.writeFile(page.rows.map((row) => `${toLine(row)}\n`).join(''));
      update(`${rows} rows`);
      path = page.next === undefined ? '' : `export?cursor=${encodeURIComponent(page.next)}`;
    }
    await output.writeFile(`${JSON.stringify({ rows })}\n`);
    await output.sync();
    await output.close();
    renameSync(partial, file);
    return rows;
  } catch (error) {
    await output.close().catch(() => {});
    rmSync(partial, { force: true });
    throw error;
  }
}

/** Returns a row as one line of JSON. Escapes U+2028 and U+2029, because programs that read lines may also split at these separators. */
const toLine = (row) => JSON.stringify(row).replace(/[\u2028\u2029]/g, (separator) => `\\u${separator.charCodeAt(0).toString(16)}`);

/** @param {string} file */
const readLines = (file) => createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });

/**
 * Checks that a file is a complete export.
 * @param {string} file
 * @returns {Promise<{namespace: string, rows: number}>}
 */
export async function checkExport(file) {
  const invalid = (reason) => new UserError(`${file} is not a complete export of a namespace: ${reason}.`, 'Export the namespace again.');
  let header;
  let lines = 0;
  let last = '';
  for await (const line of readLines(file)) {
    header ??= parseJson(line);
    if (header?.format !== FORMAT) throw invalid('its first line does not say so');
    lines += 1;
    if (parseJson(line) === null) throw invalid(`its line ${lines} is not JSON`);
    last = line;
  }
  if (header === undefined) throw invalid('it is empty');
  if (header.version !== FORMAT_VERSION) {
    throw new UserError(`${file} has the version ${header.version} of the format; this command reads ${FORMAT_VERSION}.`);
  }
  if (!isNamespace(header.namespace)) throw invalid('its first line names no namespace');
  if (lines < 2 || parseJson(last)?.rows !== lines - 2) throw invalid('its end is missing');
  return { namespace: header.namespace, rows: lines - 2 };
}

/**
 * Imports an export file into a hub. The hub's namespace of the same name must be empty.
 * @param {import('./operator.mjs').HubAccess} hub
 * @param {{file: string, namespace: string, rows: number}} exported as {@link checkExport} returns it
 * @param {boolean} continues whether to continue an interrupted import of this file
 * @param {(state: string) => void} update
 */
export async function importNamespace(hub, exported, continues, update) {
  const { file, namespace } = exported;
  const send = (body) => requestAsOperator(hub, namespace, 'POST', 'import', body, update);
  await send({ step: continues ? 'continue' : 'begin' });
  try {
    await sendRows(send, exported, update);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const command = commandLine('namespace', `import ${file} --continue`);
    throw new UserError(error.message, `${namespace} stays closed. Fix the cause, and continue with: ${command}`);
  }
  await send({ step: 'end' });
}

async function sendRows(send, { file, rows }, update) {
  let chunk = [];
  let chars = 0;
  let imported = 0;
  const flush = async () => {
    if (chunk.length > 0) await send({ step: 'rows', rows: chunk });
    imported += chunk.length;
    update(`${imported} of ${rows} rows`);
    chunk = [];
    chars = 0;
  };
  let number = 0;
  for await (const line of readLines(file)) {
    number += 1;
    if (number === 1 || number === rows + 2) continue;
    const row = parseJson(line);
    if (chars + line.length > MAX_CHUNK_CHARS || chunk.length === MAX_CHUNK_ROWS) await flush();
    chunk.push(row);
    chars += line.length;
  }
  await flush();
}
