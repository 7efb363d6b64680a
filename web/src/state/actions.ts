/** The user's actions on a session. Each resolves once the hub has completed it, and throws a `HubError` otherwise. */

import { unwrap } from '../api/client.ts';
import { moveMessageDraft } from './drafts.ts';
import { api, outbox, sync } from './hub-client.ts';
import { patchState, state } from './store.ts';

const withId = (id: string) => ({ params: { path: { id } } });

export async function rename(id: string, name: string): Promise<void> {
  await unwrap(api.PATCH('/api/sessions/{id}', { ...withId(id), body: { name } }));
}

/** Aborts the agent's current turn. */
export async function abort(id: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/abort', { ...withId(id), body: {} }));
}

/** Takes control of the session from the terminal. */
export async function takeControl(id: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/switch', withId(id)));
}

/** Ends the session's process and moves the session to the archive. */
export async function archive(id: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/archive', { ...withId(id), body: {} }));
}

/**
 * Restarts the session's process.
 * @returns the id of the resumed session, which differs from `id` if the hub merged the two
 */
export async function resume(id: string): Promise<string> {
  const { sessionId } = await unwrap(api.POST('/api/sessions/{id}/resume', withId(id)));
  if (sessionId !== id) {
    moveMessageDraft(id, sessionId);
    void outbox.move(id, sessionId);
    // A merge renumbers the messages.
    await sync.fetchNewestMessages(sessionId);
  }
  return sessionId;
}

/** Deletes the session and its messages. */
export async function remove(id: string): Promise<void> {
  await unwrap(api.DELETE('/api/sessions/{id}', withId(id)));
  // The event of the deletion may arrive later.
  const { [id]: _, ...summaries } = state.value.summaries;
  patchState({ summaries });
}

export async function setPermissionMode(id: string, mode: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/permission-mode', { ...withId(id), body: { mode } }));
}

export async function setModel(id: string, model: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/model', { ...withId(id), body: { model } }));
}

export interface Approval {
  decision?: 'approved' | 'approved_for_session';
  mode?: string;
  answers?: Record<string, string[]>;
}

/** Approves a permission request. */
export async function approve(id: string, requestId: string, approval: Approval): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/permissions/approve', { ...withId(id), body: { requestId, ...approval } }));
}

/** Denies a permission request. The decision `abort` also aborts the agent's turn. */
export async function deny(id: string, requestId: string, decision: 'denied' | 'abort', reason?: string): Promise<void> {
  const body = { requestId, decision, ...(reason ? { reason } : {}) };
  await unwrap(api.POST('/api/sessions/{id}/permissions/deny', { ...withId(id), body }));
}
