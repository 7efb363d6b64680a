// The databases of a hub, and the move of a namespace to another database.

import { UserError } from '../../lib/errors.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { requestAsOperator } from './operator.mjs';

/** The largest size of a D1 database on the paid plan, in bytes. */
const MAX_DATABASE_BYTES = 10e9;

/** The list of databases is of no namespace, but each token of the operator names one. */
const ANY_NAMESPACE = 'default';

/**
 * @typedef {object} DatabaseInfo
 * @property {string} name of the binding
 * @property {number | null} bytes null if the database does not answer
 * @property {number | null} percent of the largest size
 * @property {number | null} namespaces that have rows in the database
 * @property {string} [error] why the database does not answer
 * @property {boolean} isOpen whether the database accepts new namespaces
 */

/**
 * @param {import('./operator.mjs').HubAccess} hub
 * @returns {Promise<DatabaseInfo[]>}
 */
export async function listDatabases(hub) {
  const { databases } = await requestAsOperator(hub, ANY_NAMESPACE, 'GET', 'databases');
  return databases.map((database) => ({
    ...database,
    percent: database.bytes === null ? null : (database.bytes / MAX_DATABASE_BYTES) * 100,
  }));
}

/** The progress text for each step of a move. */
const PROGRESS_TEXTS = {
  copying: (sessions) => `copying, ${sessions} sessions remain`,
  closed: (sessions) => `clients wait, ${sessions} sessions remain`,
  deleting: (sessions) => `deleting the earlier rows, ${sessions} sessions remain`,
};

/** For each step: what is true after a move that was interrupted in this step. */
const CONSEQUENCES = {
  copying: (namespace) => `The clients of ${namespace} do not notice: it is in its earlier database.`,
  closed: (namespace) => `The clients of ${namespace} wait until the move continues.`,
  deleting: (namespace, to) => `${to} has ${namespace}, and earlier rows remain in other databases.`,
};

/**
 * Moves a namespace to another database.
 * @param {import('./operator.mjs').HubAccess} hub
 * @param {string} namespace
 * @param {string} to the binding of the database
 * @param {(state: string) => void} update
 */
export async function moveNamespace(hub, namespace, to, update) {
  let step;
  try {
    for (;;) {
      const answer = await requestAsOperator(hub, namespace, 'POST', 'move', { to });
      if (answer.isDone) return;
      step = answer.step;
      update(PROGRESS_TEXTS[step](answer.remainingSessions));
    }
  } catch (error) {
    if (!(error instanceof UserError) || step === undefined) throw error;
    const command = commandLine('databases', `move ${namespace} --to ${to}`);
    throw new UserError(error.message, `${CONSEQUENCES[step](namespace, to)} Run the command again: ${command}`);
  }
}
