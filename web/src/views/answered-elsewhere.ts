/** Says what happened to a request that disappears without an answer from this page. */

import type { CompletedRequest } from '../api/types.ts';
import { getAnswerDraft } from '../state/drafts.ts';
import { ownDecisions, requestKey } from '../state/inbox.ts';
import { showToast } from '../ui/toasts.tsx';

/** The requests that this page has answered, or is answering, and whose end it has not announced yet. */
const decidedKeys = new Set<string>();

/** Runs an operation that answers a request, and records that this page has answered the request. Rejects with the error of the operation. */
export async function trackDecision(sessionId: string, requestId: string, operation: () => Promise<unknown>): Promise<void> {
  const key = requestKey(sessionId, requestId);
  for (const keys of [decidedKeys, ownDecisions]) keys.add(key);
  try {
    await operation();
  } catch (error) {
    for (const keys of [decidedKeys, ownDecisions]) keys.delete(key);
    throw error;
  }
}

/** Says what happened to a request that is no longer pending. `completed`: the request with its outcome; undefined if the outcome is unknown. */
export const describeAnswer = (completed: CompletedRequest | undefined): string =>
  completed?.status === 'approved' || completed?.status === 'denied' ? 'Answered on another device' : 'The agent no longer asks';

/** Shows a toast for a request that is no longer pending, with the answers that the user was typing, unless this page has answered the request. */
export function announceAnswered(sessionId: string, requestId: string, title: string, completed: CompletedRequest | undefined): void {
  // Deleted, because an agent may use the id of a request again.
  if (decidedKeys.delete(requestKey(sessionId, requestId))) return;
  const typed = [...getAnswerDraft(sessionId, requestId).typedTexts.values()].join(' ').trim();
  showToast({ title: describeAnswer(completed), text: typed === '' ? title : `${title}. Your text was: ${typed}` });
}
