/** Where the user reads each session, and which turns are folded. Stored in the browser's database. */

import { signal } from '@preact/signals';
import type { FoldState } from '../content/turns.ts';
import type { Database } from './database.ts';

/** A scroll position that is not the end of the conversation. */
export interface ReadingPlace {
  /** The key of the first visible item. */
  itemKey: string;
  /** The seq of the item's message, or of a message near the item. */
  seq: number;
  /** How much of this item is above the visible area, in pixels. */
  offset: number;
}

/** The stored fields must not change their meaning: the records are kept across a deploy. */
interface ReadingRecord {
  /** Null for the end of the conversation. */
  place: ReadingPlace | null;
  /** The seq of the newest message that the user has seen. */
  seenSeq: number;
  folds: FoldState;
  /** Unix milliseconds. */
  changedAt: number;
}

/** Limit on the stored sessions. */
const MAX_SESSIONS = 200;
const SAVE_DELAY_MS = 500;

const NOTHING_FOLDED: FoldState = { isFolded: false, exceptions: [] };
const UNREAD: ReadingRecord = { place: null, seenSeq: 0, folds: NOTHING_FOLDED, changedAt: 0 };

/** By session id. */
const records = new Map<string, ReadingRecord>();
/** The folded turns by session id. A signal, because the session menu and the conversation show and change this state. */
const folds = signal<ReadonlyMap<string, FoldState>>(new Map());

/** Whether the read of the stored records has ended, with or without success. */
export const isReadingRestored = signal(false);

let database: Promise<Database> | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
const unsavedIds = new Set<string>();

export async function restoreReading(openedDatabase: Promise<Database>): Promise<void> {
  database = openedDatabase;
  const stored = ((await openedDatabase.then((opened) => opened.getAll('reading')).catch(() => [])) as [string, ReadingRecord][]).sort(
    ([, a], [, b]) => b.changedAt - a.changedAt,
  );
  for (const [id, record] of stored.slice(0, MAX_SESSIONS)) records.set(id, record);
  for (const [id] of stored.slice(MAX_SESSIONS)) void openedDatabase.then((opened) => opened.delete('reading', id)).catch(() => {});
  folds.value = new Map(Array.from(records, ([id, record]) => [id, record.folds]));
  isReadingRestored.value = true;
}

export const getReading = (sessionId: string): Readonly<Pick<ReadingRecord, 'place' | 'seenSeq'>> => records.get(sessionId) ?? UNREAD;

export const getFolds = (sessionId: string): FoldState => folds.value.get(sessionId) ?? NOTHING_FOLDED;

export function updateReading(sessionId: string, changes: Partial<Pick<ReadingRecord, 'place' | 'seenSeq' | 'folds'>>): void {
  records.set(sessionId, { ...(records.get(sessionId) ?? UNREAD), ...changes, changedAt: Date.now() });
  if (changes.folds) folds.value = new Map(folds.peek()).set(sessionId, changes.folds);
  unsavedIds.add(sessionId);
  // Saved after a delay, because scrolling changes the place with each frame.
  clearTimeout(timer);
  timer = setTimeout(saveReading, SAVE_DELAY_MS);
}

/** Stores the changed records now. */
export function saveReading(): void {
  clearTimeout(timer);
  timer = undefined;
  // An error has little effect: the session opens at an older place.
  for (const id of unsavedIds) void database?.then((opened) => opened.put('reading', id, records.get(id))).catch(() => {});
  unsavedIds.clear();
}
