/** Stores the last loaded list of sessions in the browser's database, and shows it while the hub cannot be reached. */

import type { SessionSummary } from '../api/types.ts';
import type { Database } from './database.ts';
import { isArchived, sortSessions } from './sessions.ts';
import { patchState, state } from './store.ts';

/** Limit on the stored sessions. */
const MAX_SESSIONS = 500;
const ID = 'sessions';

interface StoredList {
  /** Unix milliseconds. */
  savedAt: number;
  sessions: SessionSummary[];
}

/** Stores the list, if it is loaded. */
export async function saveList(database: Promise<Database>): Promise<void> {
  const { listLoad, summaries } = state.value;
  if (listLoad.status !== 'ready') return;
  const sessions = sortSessions(Object.values(summaries).filter((session) => !isArchived(session))).slice(0, MAX_SESSIONS);
  const stored: StoredList = { savedAt: Date.now(), sessions };
  // Without a stored list, the page shows no list while the hub cannot be reached.
  await (await database).put('list', ID, stored).catch(() => {});
}

/** Shows the stored list, unless the hub's list is loaded. */
export async function showStoredList(database: Promise<Database>): Promise<void> {
  const records = await (await database).getAll('list').catch(() => []);
  const stored = records.find(([id]) => id === ID)?.[1] as StoredList | undefined;
  const { listLoad, summaries } = state.value;
  if (!stored || listLoad.status === 'ready') return;
  patchState({
    listSavedAt: stored.savedAt,
    summaries: { ...Object.fromEntries(stored.sessions.map((session) => [session.id, session])), ...summaries },
  });
}
