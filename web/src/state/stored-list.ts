/**
 * Stores the list of sessions, the inbox and the deployment's configuration in the browser's database. Shows what is stored until the hub
 * answers, and while the hub cannot be reached.
 */

import type { SessionSummary } from '../api/types.ts';
import type { Database } from './database.ts';
import type { Inbox } from './inbox.ts';
import { isArchived, sortSessions } from './sessions.ts';
import { loadStates, outdatedResources, patchState, state } from './store.ts';
import type { State } from './types.ts';

/** Limit on the stored sessions. */
const MAX_SESSIONS = 500;
/** A request with more characters of JSON is not stored. The list then shows how many requests its session has. */
const MAX_REQUEST_LENGTH = 10_000;
const ID = 'sessions';

interface StoredList {
  /** Unix milliseconds. */
  savedAt: number;
  sessions: SessionSummary[];
  /** Absent if the fetch of the inbox has failed, and in a list that an earlier version of the console has stored. */
  inbox?: Pick<Inbox, 'requests' | 'errors'>;
  /** Null if the fetch of the configuration has failed. Absent from a list that an earlier version has stored. */
  config?: State['config'];
}

/**
 * Stores the list and the inbox, if they are loaded and not out of date. Instead of an inbox that is still loading, stores the inbox that is
 * shown, which was stored before. Returns whether the list is stored.
 */
export async function saveList(database: Promise<Database>): Promise<boolean> {
  const { summaries, inbox, config } = state.value;
  if (loadStates.listAndInbox.value.status !== 'ready' || ['listLoad', 'inbox'].some((name) => outdatedResources.value.has(name)))
    return false;
  const sessions = sortSessions(Object.values(summaries).filter((session) => !isArchived(session))).slice(0, MAX_SESSIONS);
  const isShown = inbox.load.status === 'ready' || inbox.isStored;
  const stored: StoredList = { savedAt: Date.now(), sessions, config, ...(isShown ? { inbox: storedInbox(inbox) } : {}) };
  // After a failed write, the page shows no list while the hub cannot be reached.
  await (await database).put('list', ID, stored).catch(() => {});
  return true;
}

function storedInbox({ requests, errors }: Inbox): Pick<Inbox, 'requests' | 'errors'> {
  const kept = Object.entries(requests).map(([id, waiting]) => [
    id,
    Object.fromEntries(Object.entries(waiting).filter(([, request]) => JSON.stringify(request).length <= MAX_REQUEST_LENGTH)),
  ]);
  return { requests: Object.fromEntries(kept), errors };
}

/** Shows the stored list, inbox and configuration, unless those of the hub are loaded. */
export async function showStoredList(database: Promise<Database>): Promise<void> {
  const stored = await (await database).get<StoredList>('list', ID).catch(() => undefined);
  if (stored?.config && state.value.config === null) patchState({ config: stored.config });
  const { listLoad, summaries, inbox } = state.value;
  if (!stored || listLoad.status === 'ready') return;
  const showsInbox = stored.inbox !== undefined && inbox.load.status !== 'ready';
  patchState({
    listSavedAt: stored.savedAt,
    summaries: { ...Object.fromEntries(stored.sessions.map((session) => [session.id, session])), ...summaries },
    ...(showsInbox ? { inbox: { ...inbox, ...stored.inbox, isStored: true } } : {}),
  });
}
