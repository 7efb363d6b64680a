// The namespaces of the database.

import { UserError } from '../errors.mjs';
import { commandLine } from '../invocation.mjs';
import { DATA_DIR, IS_PACKAGE } from '../paths.mjs';
import { run } from '../run.mjs';
import { LOCAL_COMMAND_ENV, localWranglerCommand, WRANGLER_ENV, wranglerCommand } from '../wrangler.mjs';

/**
 * @typedef {object} NamespaceCounts
 * @property {string} namespace
 * @property {number} sessions
 * @property {number} messages
 * @property {number} machines
 */

/** The namespaces of rows that are being deleted, or that remain after a merge of sessions, start with `/`. */
const COUNTS = `
  SELECT namespace, SUM(sessions) AS sessions, SUM(messages) AS messages, SUM(machines) AS machines FROM (
    SELECT namespace, COUNT(*) AS sessions, 0 AS messages, 0 AS machines FROM sessions GROUP BY namespace
    UNION ALL
    SELECT namespace, 0, COUNT(*), 0 FROM sessions JOIN messages ON session_id = coalesce(history, sessions.id) GROUP BY namespace
    UNION ALL
    SELECT namespace, 0, 0, COUNT(*) FROM machines GROUP BY namespace
  ) WHERE namespace NOT LIKE '/%' GROUP BY namespace ORDER BY namespace`;

/**
 * Counts the sessions, messages and machines of each namespace.
 * @param {{remote: boolean, env?: string}} options `remote`: whether to read the database of the deployment `env` instead of the local
 *   database
 * @returns {Promise<NamespaceCounts[]>} sorted by name
 */
export async function listNamespaces({ remote, env }) {
  const args = ['d1', 'execute', 'DB', '--json', '--command', COUNTS.replaceAll(/\s+/g, ' ').trim()];
  const [command, variables] = remote
    ? [await remoteCommand([...args, '--remote', `--env=${env ?? ''}`], env), { ...WRANGLER_ENV, CI: '1' }]
    : [localWranglerCommand(args), LOCAL_COMMAND_ENV];
  const [{ results }] = JSON.parse(await run(...command, { cwd: DATA_DIR, env: variables }));
  return results;
}

/** @param {string[]} args @param {string} [env] */
async function remoteCommand(args, env) {
  // Imported here, because this module needs the npm packages.
  const { withDeployment } = await import('../deploy/config.mjs');
  const deployed = withDeployment(args, env);
  if (deployed === args && IS_PACKAGE) {
    throw new UserError(
      `No hub${env ? ` of the environment ${env}` : ''} was deployed from ${DATA_DIR}.`,
      `Deploy one with: ${commandLine('deploy')}`,
    );
  }
  return wranglerCommand(deployed);
}
