/** Which session a CLI continues: the tag of the session, and whether another installation has served the session. */

import { HubError } from './hub-client.mjs';

/**
 * Finds the tag of the session that a start without a session id continues. The tag contains the id of the installation, because one path
 * exists on many computers. Without a session of this tag, the start continues a session of an earlier version, whose tag is the path and
 * the agent, or a session under an earlier address of the hub.
 * @param {import('./app.mjs').ServingOptions} options
 * @param {<T>(call: () => Promise<T>) => Promise<T>} callHub calls the hub with retries
 * @returns {Promise<{tag: string, sessionId?: string}>} `sessionId`: of a session that exists
 */
export async function findTag(options, callHub) {
  const { store, client, program, root, isNew = false } = options;
  const earlierTag = options.tag ?? program.tagOf?.(root, options) ?? root;
  const installationTag = `${earlierTag}#${store.installationId}`;
  const tag = store.resolveTag(installationTag, { isNew });
  if (isNew || store.hasSession(tag)) return { tag };
  // A tag that `--new` has made never leads back to the session before it.
  const earlier = tag === installationTag ? store.findSessions(store.resolveTag(earlierTag, { isNew: false })) : [];
  for (const state of [...store.findSessions(tag), ...earlier]) {
    const session = await callHub(() => client.getSession(state.sessionId)).catch(nullIfRefused);
    if (session && isServedHere(session, { ...state, installationId: store.installationId })) {
      return { tag: session.tag, sessionId: session.id };
    }
  }
  return { tag };
}

/**
 * Whether the process that served a session last used this state of the session. A state in another folder does not know which messages
 * that process has handled. Only this installation makes tags with its id; for a tag of an earlier version, the metadata decides.
 * @param {{tag: string, metadata?: Record<string, any> | null}} session the session at the hub
 * @param {{agentId: string, installationId: string}} state
 */
export function isServedHere({ tag, metadata }, { agentId, installationId }) {
  if (tag.includes(`#${installationId}`)) return true;
  const { flavor, [`${flavor}SessionId`]: lastAgentId, installationId: lastInstallationId = installationId } = metadata ?? {};
  return lastAgentId === agentId && lastInstallationId === installationId;
}

function nullIfRefused(error) {
  if (error instanceof HubError && error.isSessionMissing) return null;
  throw error;
}
