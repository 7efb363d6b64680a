/**
 * Stores the newest messages of the sessions that were opened last in the browser's database. Shows the stored messages until the hub answers,
 * and while the hub cannot be reached.
 */

import type { Message, Session } from '../api/types.ts';
import type { Database } from './database.ts';
import { getOwn } from './get-own.ts';
import { namespace, patchState, state, updateConversation } from './store.ts';

/** Limit on the sessions whose messages are stored. */
const MAX_SESSIONS = 10;
/** Limits on the stored messages of a session, and on the characters of their JSON. */
const MAX_MESSAGES = 60;
const MAX_LENGTH = 300_000;
/** The id of the record with the ids of the sessions whose messages are stored, the last opened session first. No session has this id. */
const INDEX_ID = 'index';

interface StoredConversation {
  session: Session;
  /** In ascending order of `seq`, without gaps. */
  messages: Message[];
  hasOlder: boolean;
  /** Unix milliseconds. Absent if an earlier version of the console has stored the messages. */
  savedAt?: number;
}

/** Stores the newest messages of a session, if they are loaded and the session exists. */
export async function saveConversation(database: Promise<Database>, id: string): Promise<void> {
  const session = getOwn(state.value.sessions, id);
  const conversation = getOwn(state.value.conversations, id);
  // The stored messages of a deleted session were deleted.
  if (getOwn(state.value.sessionErrors, id)?.isGone) return;
  // What is stored stays as old as it is until the hub has answered.
  if (!session || getOwn(state.value.storedSessions, id) !== undefined) return;
  if (conversation?.loadState.status !== 'ready' || conversation.hasNewer) return;
  const messages = newestWithinLimits(conversation.messages);
  const hasOlder = conversation.hasOlder || messages.length < conversation.messages.length;
  const stored: StoredConversation = { session, messages, hasOlder, savedAt: Date.now() };
  const records = await database;
  // After a failed write, the next page shows no messages until the hub answers.
  await records
    .put('conversation', id, stored)
    .then(() => changeIndex(records, (ids) => [id, ...ids.filter((other) => other !== id)].slice(0, MAX_SESSIONS)))
    .catch(() => {});
}

function newestWithinLimits(messages: Message[]): Message[] {
  let length = 0;
  const newest = messages.slice(-MAX_MESSAGES);
  const first = newest.findLastIndex((message) => {
    length += JSON.stringify(message).length;
    return length > MAX_LENGTH;
  });
  return newest.slice(first + 1);
}

/** Deletes the stored messages of the sessions that are not in the list. */
export async function deleteUnlistedConversations(database: Promise<Database>): Promise<void> {
  const { summaries } = state.value;
  await changeIndex(await database, (ids) => ids.filter((id) => getOwn(summaries, id))).catch(() => {});
}

/** Deletes the stored messages of a session. */
export async function deleteConversation(database: Promise<Database>, id: string): Promise<void> {
  await changeIndex(await database, (ids) => ids.filter((other) => other !== id)).catch(() => {});
}

/** Changes the list of the sessions whose messages are stored, and deletes the messages of the sessions that are no longer in the list. */
async function changeIndex(records: Database, change: (ids: string[]) => string[]): Promise<void> {
  let removedIds: string[] = [];
  await records.update<string[]>('conversation', INDEX_ID, (ids = []) => {
    const changed = change(ids);
    removedIds = ids.filter((id) => !changed.includes(id));
    return changed.length === 0 ? undefined : changed;
  });
  await Promise.all(removedIds.map((id) => records.delete('conversation', id)));
}

/** Shows a session of the list that is not stored while the hub cannot be reached: messages can be written to it. */
export function showListedSession(id: string): void {
  const { sessions, summaries, storedSessions, listSavedAt } = state.value;
  const summary = getOwn(summaries, id);
  if (!summary || getOwn(sessions, id)) return;
  const session = {
    ...{ namespace: namespace.value ?? '', tag: '', seq: 0, metadataVersion: 0, agentState: {}, agentStateVersion: 0, thinkingAt: 0 },
    ...{ ...summary, thinking: false },
  } as Session;
  patchState({
    sessions: { ...sessions, [id]: session },
    storedSessions: { ...storedSessions, [id]: listSavedAt ?? Date.now() },
  });
}

/** Shows the stored messages of a session, unless the session is loaded. */
export async function showStoredConversation(database: Promise<Database>, id: string): Promise<void> {
  if (getOwn(state.value.sessions, id)) return;
  const stored = await (await database).get<StoredConversation>('conversation', id).catch(() => undefined);
  if (!stored || getOwn(state.value.sessions, id)) return;
  const { session, messages, hasOlder, savedAt = session.updatedAt } = stored;
  // The requests may have been answered, and the agent may have stopped.
  const { requests: _, ...agentState } = session.agentState ?? {};
  patchState({
    sessions: { ...state.value.sessions, [id]: { ...session, thinking: false, agentState } },
    storedSessions: { ...state.value.storedSessions, [id]: savedAt },
  });
  updateConversation(id, (conversation) =>
    conversation.loadState.status === 'idle' ? { ...conversation, messages, hasOlder, loadState: { status: 'ready' } } : conversation,
  );
}
