/**
 * The user's actions on a session. The promise of an action resolves when the hub has completed the action, and otherwise rejects with
 * a `HubError`.
 */

import { unwrap } from '../api/client.ts';
import { machineError } from '../api/errors.ts';
import type { Message, SessionChange } from '../api/types.ts';
import { isString } from '../api/validate.ts';
import { getMessageDraft, moveMessageDraft, updateMessageDraft } from './drafts.ts';
import { api, outbox, sync } from './hub-client.ts';
import type { CutMessage } from '../content/excerpt.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { withoutOutgoing } from './conversation.ts';
import { getConversation, patchState, state, updateConversation } from './store.ts';

const withId = (id: string) => ({ params: { path: { id } } });

export async function rename(id: string, name: string): Promise<void> {
  await unwrap(api.PATCH('/api/sessions/{id}', { ...withId(id), body: { name } }));
}

/** Changes settings of a session, such as whether it is pinned. */
export async function changeSession(id: string, body: SessionChange): Promise<void> {
  await unwrap(api.PATCH('/api/sessions/{id}', { ...withId(id), body }));
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
 * Restarts the session's process. `trust`: whether the user trusts the session's directory.
 * @returns the id of the resumed session, which differs from `id` if the hub merged two sessions
 */
export async function resume(id: string, trust: boolean): Promise<string> {
  const { sessionId } = await unwrap(api.POST('/api/sessions/{id}/resume', { ...withId(id), body: trust ? { trust } : {} }));
  if (sessionId !== id) {
    moveMessageDraft(id, sessionId);
    void outbox.move(id, sessionId);
    // A merge renumbers the messages.
    await sync.fetchNewestMessages(sessionId);
  }
  return sessionId;
}

/** Cancels a message that waits until the session's CLI is back. The text returns to the composer if the composer is empty. */
export async function cancelHeldMessage(id: string, { localId, text }: OutgoingMessage): Promise<void> {
  await unwrap(api.DELETE('/api/sessions/{id}/held-messages/{localId}', { params: { path: { id, localId } } }));
  updateConversation(id, (conversation) => withoutOutgoing(conversation, localId));
  if (getMessageDraft(id).text === '') updateMessageDraft(id, { text });
}

/** Returns a whole message; undefined if the session does not have the message. */
export async function fetchMessage(id: string, seq: number): Promise<Message | undefined> {
  const query = { beforeSeq: seq + 1, limit: 1 };
  const [message] = (await unwrap(api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query } }))).messages;
  return message?.seq === seq ? message : undefined;
}

/** Replaces the text of a queued message. */
export async function editQueued(id: string, seq: number, text: string): Promise<void> {
  await unwrap(api.PATCH('/api/sessions/{id}/queue/{seq}', { params: { path: { id, seq } }, body: { text } }));
}

/** Removes a queued message. The text returns to the composer if the composer is empty. */
export async function cancelQueued(id: string, seq: number, text: string): Promise<void> {
  await unwrap(api.DELETE('/api/sessions/{id}/queue/{seq}', { params: { path: { id, seq } } }));
  if (getMessageDraft(id).text === '') updateMessageDraft(id, { text });
}

/** Sends a queued message to the agent at once. */
export async function sendQueued(id: string, seq: number): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/queue/{seq}/send', { params: { path: { id, seq } } }));
}

/** Sets the order of the queued messages. */
export async function orderQueue(id: string, seqs: number[]): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/queue', { ...withId(id), body: { seqs } }));
}

/** Loads whole messages in place of their excerpts. */
export async function loadWholeMessages(id: string, excerpts: readonly CutMessage[]): Promise<void> {
  for (const { seq } of excerpts) {
    const whole = await fetchMessage(id, seq);
    // A merge of two sessions renumbers the messages.
    if (!whole || !getConversation(id).messages.some((message) => message.id === whole.id))
      throw new Error('The conversation has changed. Reload the page.');
    updateConversation(id, (conversation) => ({
      ...conversation,
      messages: conversation.messages.map((message) => (message.id === whole.id ? whole : message)),
    }));
  }
}

/** Deletes the session and its messages. */
export async function deleteSession(id: string): Promise<void> {
  await unwrap(api.DELETE('/api/sessions/{id}', withId(id)));
  // The event of the deletion may arrive later, and the deleted session must not stay in the list until then.
  const { [id]: _, ...summaries } = state.value.summaries;
  patchState({ summaries });
}

export async function setPermissionMode(id: string, mode: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/permission-mode', { ...withId(id), body: { mode } }));
}

export async function setModel(id: string, model: string): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/model', { ...withId(id), body: { model } }));
}

/** Sets an option of the agent. */
export async function setOption(id: string, optionId: string, value: string | boolean): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/options', { ...withId(id), body: { id: optionId, value } }));
}

/**
 * Starts a new session with the history of session `id` before the message `seq`.
 * @param worktree the name of a new git worktree; empty for the directory of the session
 * @param trust whether the user trusts the directory
 * @returns the id of the new session
 * @throws {Error} with the machine's error message
 */
export async function fork(id: string, seq: number, worktree: string, trust: boolean): Promise<string> {
  const place = worktree === '' ? {} : { sessionType: 'worktree' as const, worktreeName: worktree };
  const body = { seq, ...place, ...(trust ? { trust } : {}) };
  const answer = await unwrap(api.POST('/api/sessions/{id}/fork', { ...withId(id), body }));
  const { success, sessionId } = answer;
  if (!success || !isString(sessionId) || sessionId === '')
    throw machineError(answer, 'The machine did not fork the session and gave no reason.');
  return sessionId;
}

export interface Approval {
  decision?: 'approved' | 'approved_for_session';
  mode?: string;
  /** The answers by question. Two keys are not questions: `choice` has the id of one of the agent's own approvals, `proof` has {@link RequestContent.proof}. */
  answers?: Record<string, string[]>;
}

/** The full content of a request whose CLI has published only a shortened form. */
export interface RequestContent {
  arguments: unknown;
  /** Proves to the CLI that all parts were loaded. The CLI accepts an approval only with this proof. */
  proof: string;
}

/** Reads all parts of a shortened request. `onPart` receives the number of parts read so far. */
export async function readRequestContent(id: string, requestId: string, onPart: (count: number) => void): Promise<RequestContent> {
  let [json, proof] = ['', ''];
  for (let part = 0, parts = 1; part < parts; part += 1) {
    const params = { path: { id, requestId }, query: { part } };
    const answer = await unwrap(api.GET('/api/sessions/{id}/permissions/{requestId}/content', { params }));
    if (!answer.success || !isString(answer.text) || !isString(answer.proof))
      throw new Error(answer.error ?? 'The agent did not send the content.');
    json += answer.text;
    proof += answer.proof;
    parts = answer.parts ?? parts;
    onPart(part + 1);
  }
  return { arguments: JSON.parse(json), proof };
}

/** Withdraws a rule by which the session's CLI approves requests without asking. */
export async function revokeRule(id: string, ruleId: string): Promise<void> {
  const { success, error } = await unwrap(
    api.DELETE('/api/sessions/{id}/permissions/rules/{ruleId}', { params: { path: { id, ruleId } } }),
  );
  if (!success) throw new Error(error ?? 'The agent did not withdraw the approval.');
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
