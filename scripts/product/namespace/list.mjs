// The namespaces of the databases.

import { createHash } from 'node:crypto';
import { UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { DATA_DIR, IS_PACKAGE } from '../../lib/paths.mjs';
import { run } from '../../lib/run.mjs';
import { LOCAL_COMMAND_ENV, localDatabases, localWranglerCommand, WRANGLER_ENV, wranglerCommand } from '../hub/wrangler.mjs';

/**
 * @typedef {object} NamespaceCounts
 * @property {string} namespace
 * @property {string} hash the name of the namespace in log lines and metrics
 * @property {number} sessions
 * @property {number} messages
 * @property {number} machines
 */

/**
 * Counts the rows of each namespace. Leaves out the names that start with `/`: they mark rows that are being deleted, or that remain
 * after a merge of sessions. `history`: the id under which the messages of a merged session are stored.
 */
const COUNTS = `
  SELECT namespace, SUM(sessions) AS sessions, SUM(messages) AS messages, SUM(machines) AS machines FROM (
    SELECT namespace, COUNT(*) AS sessions, 0 AS messages, 0 AS machines FROM sessions GROUP BY namespace
    UNION ALL
    SELECT namespace, 0, COUNT(*), 0 FROM sessions JOIN messages ON session_id = coalesce(history, sessions.id) GROUP BY namespace
    UNION ALL
    SELECT namespace, 0, 0, COUNT(*) FROM machines GROUP BY namespace
  ) WHERE namespace NOT LIKE '/%' GROUP BY namespace ORDER BY namespace`;

/** Selects the namespaces that were moved to another database: the rows that remain here are old copies. */
const MOVED = 'SELECT namespace FROM moved_namespaces';

/**
 * Counts the sessions, messages and machines of each namespace.
 * @param {{remote: boolean, env?: string}} options `remote`: whether to read the database of the deployment `env` instead of the local
 *   database
 * @returns {Promise<NamespaceCounts[]>} sorted by name
 */
export async function listNamespaces({ remote, env }) {
  const execute = async (binding, sql) => {
    const args = ['d1', 'execute', binding, '--json', '--command', sql.replaceAll(/\s+/g, ' ').trim()];
    const [command, variables] = remote
      ? [await remoteCommand([...args, '--remote', `--env=${env ?? ''}`], env), { ...WRANGLER_ENV, CI: '1' }]
      : [localWranglerCommand(args), LOCAL_COMMAND_ENV];
    return JSON.parse(await run(...command, { cwd: DATA_DIR, env: variables }))[0].results;
  };
  const bindings = remote ? await deployedDatabases(env) : localDatabases();
  const found = [];
  for (const binding of bindings) {
    const moved = bindings.length > 1 ? (await execute(binding, MOVED)).map(({ namespace }) => namespace) : [];
    found.push(...(await execute(binding, COUNTS)).filter(({ namespace }) => !moved.includes(namespace)));
  }
  found.sort((a, b) => (a.namespace < b.namespace ? -1 : 1));
  return found.map(({ namespace, ...counts }) => ({ namespace, hash: hashOfNamespace(namespace), ...counts }));
}

/** Returns the bindings of the databases of a deployment. @param {string} [env] @returns {Promise<string[]>} */
async function deployedDatabases(env) {
  // Imported only when needed: `config.mjs` needs the npm packages.
  const { deployedBindings } = await import('../deploy/config.mjs');
  return deployedBindings(env);
}

/** Returns the name of a namespace in log lines and metrics, as `hash_of_namespace` in src/log.rs. @param {string} namespace */
export const hashOfNamespace = (namespace) => createHash('sha256').update(namespace).digest('hex').slice(0, 12);

/** @param {string[]} args @param {string} [env] */
async function remoteCommand(args, env) {
  // Imported only when needed: `config.mjs` needs the npm packages.
  const { withDeployment } = await import('../deploy/config.mjs');
  const deployedArgs = withDeployment(args, env);
  const isDeployed = deployedArgs !== args;
  if (!isDeployed && IS_PACKAGE) {
    throw new UserError(
      `No hub${env ? ` of the environment ${env}` : ''} was deployed from ${DATA_DIR}.`,
      `Deploy one with: ${commandLine('deploy')}`,
    );
  }
  return wranglerCommand(deployedArgs);
}
