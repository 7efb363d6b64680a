// The namespaces of the database.

import { DATA_DIR } from './paths.mjs';
import { run } from './run.mjs';
import { LOCAL_COMMAND_ENV, localWranglerCommand, WRANGLER_ENV, wranglerCommand } from './wrangler.mjs';

/**
 * @typedef {object} NamespaceCounts
 * @property {string} namespace
 * @property {number} sessions
 * @property {number} messages
 * @property {number} machines
 */

const COUNTS = `
  SELECT namespace, SUM(sessions) AS sessions, SUM(messages) AS messages, SUM(machines) AS machines FROM (
    SELECT namespace, COUNT(*) AS sessions, 0 AS messages, 0 AS machines FROM sessions GROUP BY namespace
    UNION ALL
    SELECT sessions.namespace, 0, COUNT(*), 0 FROM messages JOIN sessions ON sessions.id = messages.session_id
    GROUP BY sessions.namespace
    UNION ALL
    SELECT namespace, 0, 0, COUNT(*) FROM machines GROUP BY namespace
  ) GROUP BY namespace ORDER BY namespace`;

/**
 * Counts what each namespace has.
 * @param {{remote: boolean}} options whether to read the database of the deployment instead of the local one
 * @returns {Promise<NamespaceCounts[]>} sorted by name
 */
export async function listNamespaces({ remote }) {
  const args = ['d1', 'execute', 'DB', '--json', '--command', COUNTS.replaceAll(/\s+/g, ' ').trim()];
  const [command, env] = remote
    ? [wranglerCommand([...args, '--remote', '--env=']), { ...WRANGLER_ENV, CI: '1' }]
    : [localWranglerCommand(args), LOCAL_COMMAND_ENV];
  const [{ results }] = JSON.parse(await run(...command, { cwd: DATA_DIR, env }));
  return results;
}
