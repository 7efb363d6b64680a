/** The files in which agents record their sessions themselves. */

import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';

/**
 * The agents that record a session in a file of JSON lines, whose name ends with the session's id, with the lines that an agent adds when a
 * session is resumed and closed without a prompt.
 * @type {Record<string, (line: any) => boolean>}
 */
const STATE_LINES = {
  claude: ({ type }) => ['tools-used', 'mode', 'cost-state'].includes(type),
  codex: ({ type, payload }) => type === 'event_msg' && payload.type === 'thread_settings_applied',
};

/**
 * Reads the file in which an agent records a session.
 * @param {string} name of the agent
 * @param {string} home the agent's home directory
 * @param {string} id the agent's id of the session
 * @returns {string | null} null for an agent that has no such file
 * @throws {Error} if the file does not exist
 */
export function readRecord(name, home, id) {
  if (STATE_LINES[name] === undefined) return null;
  const files = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith(`${id}.jsonl`));
  if (files.length !== 1) throw new Error(`${files.length} records of session ${id} in ${home}: ${files.join()}`);
  return readFileSync(path.join(home, files[0]), 'utf8');
}

/** Returns the hash of the record, or null. The parameters are those of {@link readRecord}. */
export function hashRecord(name, home, id) {
  const record = readRecord(name, home, id);
  return record === null ? null : createHash('sha256').update(record).digest('hex');
}

/**
 * Returns the lines with which a record differs from an earlier record, except lines with the state of the session.
 * @param {string} name of the agent
 * @param {string | null} before
 * @param {string | null} after
 */
export function changesOfRecord(name, before, after) {
  if (before === null || after === null) return [];
  if (!after.startsWith(before)) return ['The recorded lines have changed.'];
  const added = after.slice(before.length).split('\n').filter(Boolean);
  return added.filter((line) => !STATE_LINES[name](JSON.parse(line)));
}
