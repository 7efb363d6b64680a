// The deletion of a namespace.

import { requestAsOperator } from './operator.mjs';

/**
 * Deletes everything that a namespace has. Its clients are disconnected.
 * @param {import('./operator.mjs').HubAccess} hub
 * @param {string} namespace
 * @param {(state: string) => void} update
 */
export async function deleteNamespace(hub, namespace, update) {
  for (;;) {
    const { isDone, remainingSessions } = await requestAsOperator(hub, namespace, 'POST', 'delete', undefined, update);
    if (isDone) return;
    update(`${remainingSessions} sessions remain`);
  }
}
