/** What a person does with sessions and machines. Each answers when the hub has done it, and throws its refusal. */

import { data } from '../api/client.ts';
import type { PermissionMode } from '../api/types.ts';
import { api, sync } from '../hub.ts';
import type { ModelMode } from './modes.ts';
import { patch, state } from './store.ts';

const at = (id: string) => ({ params: { path: { id } } });

/** Gives a session a name. */
export async function rename(id: string, name: string): Promise<void> {
  await data(api.PATCH('/api/sessions/{id}', { ...at(id), body: { name } }));
}

/** Ends what the agent does. */
export async function abort(id: string): Promise<void> {
  await data(api.POST('/api/sessions/{id}/abort', { ...at(id), body: {} }));
}

/** Takes control from the terminal. */
export async function takeControl(id: string): Promise<void> {
  await data(api.POST('/api/sessions/{id}/switch', at(id)));
}

/** Ends a session's process and puts the session out of the way. */
export async function archive(id: string): Promise<void> {
  await data(api.POST('/api/sessions/{id}/archive', { ...at(id), body: {} }));
}

/**
 * Starts a session's process again.
 * @returns the session's id, which may be another one than before
 */
export async function resume(id: string): Promise<string> {
  const { sessionId } = await data(api.POST('/api/sessions/{id}/resume', at(id)));
  // The messages of a merged session are numbered anew.
  if (sessionId !== id) await sync.conversation(sessionId);
  return sessionId;
}

/** Deletes a session with its messages. */
export async function remove(id: string): Promise<void> {
  await data(api.DELETE('/api/sessions/{id}', at(id)));
  // Its event may be a moment behind.
  const { [id]: _, ...summaries } = state.value.summaries;
  patch({ summaries });
}

/** Sets what the agent may do unasked. */
export async function setPermissionMode(id: string, mode: PermissionMode): Promise<void> {
  await data(api.POST('/api/sessions/{id}/permission-mode', { ...at(id), body: { mode } }));
}

/** Switches the agent's model. */
export async function setModel(id: string, model: ModelMode): Promise<void> {
  await data(api.POST('/api/sessions/{id}/model', { ...at(id), body: { model } }));
}

/** What may be said with an approval. */
export interface Approval {
  decision?: 'approved' | 'approved_for_session';
  mode?: PermissionMode;
  answers?: Record<string, string[]>;
}

/** Lets the agent do what it asked for. */
export async function approve(id: string, requestId: string, approval: Approval): Promise<void> {
  const path = { id, requestId };
  await data(api.POST('/api/sessions/{id}/permissions/{requestId}/approve', { params: { path }, body: approval }));
}

/** Forbids it; with `abort` the agent's task ends as well. */
export async function deny(id: string, requestId: string, decision: 'denied' | 'abort', reason?: string): Promise<void> {
  const path = { id, requestId };
  const body = { decision, ...(reason ? { reason } : {}) };
  await data(api.POST('/api/sessions/{id}/permissions/{requestId}/deny', { params: { path }, body }));
}
