/**
 * Drafts: the messages and answers that are being written, and the last choices and the pinned directories of the form for a new session.
 * The browser's database stores the drafts, and all tabs of the browser show the same drafts.
 */

import { signal } from '@preact/signals';
import { draftsKey } from '../api/accounts.ts';
import { readJson } from '../api/read-json.ts';
import type { Database } from './database.ts';
import { postToTabs } from './tabs.ts';

export interface MessageDraft {
  text: string;
  /** The names of the attached files. After a reload, the files themselves are no longer attached. */
  files: string[];
}

export interface AnswerDraft {
  /** The reason for a denial. */
  reason: string;
  /** The selected options, by the question's key. */
  selectedOptions: ReadonlyMap<string, string[]>;
  /** The free-text answers, by the question's key. */
  typedTexts: ReadonlyMap<string, string>;
}

const EMPTY_MESSAGE: MessageDraft = { text: '', files: [] };
const EMPTY_ANSWER: AnswerDraft = { reason: '', selectedOptions: new Map(), typedTexts: new Map() };

/** The drafts by {@link messageId}, {@link answerId}, {@link startId} or {@link PIN_PREFIX}. The ids and fields must not change: the drafts are kept across a deploy. */
const drafts = signal<ReadonlyMap<string, unknown>>(new Map());

const messageId = (sessionId: string) => `message ${sessionId}`;
const answerId = (sessionId: string, requestId: string) => `answer ${sessionId} ${requestId}`;

let database: Promise<Database> | undefined;
/** The drafts that are not stored yet. */
const unsaved = new Set<string>();
/** The drafts whose writes have not ended, or have failed. */
const unconfirmed = new Set<string>();
let isSaving = false;
/** The key of the copy that {@link flushDrafts} writes. */
let copyKey = '';

/** Restores the stored drafts of a namespace. */
export async function restoreDrafts(opened: Promise<Database>, namespace: string): Promise<void> {
  database = opened;
  copyKey = draftsKey(namespace);
  const stored = await opened.then((records) => records.getAll('draft')).catch(() => []);
  const copied = readCopy();
  for (const [id] of copied) unsaved.add(id);
  // A draft that was changed during the read is newer than the stored draft.
  const restored = new Map([...stored, ...copied, ...drafts.value]);
  for (const [id, value] of restored) if (value === null) restored.delete(id);
  drafts.value = restored;
  if (!isSaving) void saveDrafts();
}

/** Returns the drafts that were not in the database when a page was closed; null for a deleted draft. */
function readCopy(): [id: string, value: unknown][] {
  const restoreMaps = (_: string, value: unknown) => {
    const { entries } = (value ?? {}) as { entries?: unknown };
    return Array.isArray(entries) ? new Map(entries) : value;
  };
  const copied = readJson<[id: string, value: unknown][]>(localStorage, copyKey, restoreMaps);
  return Array.isArray(copied) ? copied.filter(Array.isArray) : [];
}

function writeCopy(copied: [id: string, value: unknown][]): void {
  const text = JSON.stringify(copied, (_, value) => (value instanceof Map ? { entries: [...value] } : value));
  try {
    if (copied.length > 0) localStorage.setItem(copyKey, text);
    else localStorage.removeItem(copyKey);
  } catch {
    // The storage is full.
  }
}

/** Applies a change that another tab made and stored. */
export function handleDraftFromTab(id: string, value: unknown): void {
  drafts.value = withDraft(id, value);
}

export function getMessageDraft(sessionId: string): MessageDraft {
  return (drafts.value.get(messageId(sessionId)) as MessageDraft | undefined) ?? EMPTY_MESSAGE;
}

export function updateMessageDraft(sessionId: string, changes: Partial<MessageDraft>): void {
  const draft = { ...getMessageDraft(sessionId), ...changes };
  setDraft(messageId(sessionId), draft.text === '' && draft.files.length === 0 ? undefined : draft);
}

/** Moves the draft of a session that was merged into another. */
export function moveMessageDraft(from: string, to: string): void {
  const { text } = getMessageDraft(from);
  setDraft(messageId(from), undefined);
  if (text !== '') updateMessageDraft(to, { text });
}

/** Stands for the id of the session in the draft of the form for a new session. Ids of sessions are UUIDs. */
export const NEW_SESSION = 'new';

/** The agent, its model and its options of the last start in a place. Earlier versions have stored no options. */
export interface StartChoice {
  agent: string;
  model: string;
  options?: Record<string, string | boolean>;
}

const startId = (place: string) => `start ${place}`;

/** Returns the choice for a place, by the place's key; undefined if this browser has not started a session there. */
export const getStartChoice = (place: string): StartChoice | undefined => drafts.value.get(startId(place)) as StartChoice | undefined;

export const setStartChoice = (place: string, choice: StartChoice) => setDraft(startId(place), choice);

/** A directory that the user has pinned in the form for a new session. */
export interface PinnedDirectory {
  machineId: string;
  directory: string;
  /** Unix milliseconds. */
  pinnedAt: number;
}

const PIN_PREFIX = 'pin ';

/** Returns the pinned directories, the oldest pin first. */
export const pinnedDirectories = (): PinnedDirectory[] =>
  [...drafts.value]
    .filter(([id]) => id.startsWith(PIN_PREFIX))
    .map(([, value]) => value as PinnedDirectory)
    .sort((a, b) => a.pinnedAt - b.pinnedAt);

/** Pins the directory of a place, by the place's key; null unpins it. */
export const setPin = (place: string, pin: PinnedDirectory | null) => setDraft(`${PIN_PREFIX}${place}`, pin ?? undefined);

/** Returns the draft of an answer, empty if there is none. */
export function getAnswerDraft(sessionId: string, requestId: string): AnswerDraft {
  return (drafts.value.get(answerId(sessionId, requestId)) as AnswerDraft | undefined) ?? EMPTY_ANSWER;
}

export function updateAnswerDraft(sessionId: string, requestId: string, changes: Partial<AnswerDraft>): void {
  setDraft(answerId(sessionId, requestId), { ...getAnswerDraft(sessionId, requestId), ...changes });
}

export function deleteAnswerDraft(sessionId: string, requestId: string): void {
  setDraft(answerId(sessionId, requestId), undefined);
}

/**
 * Deletes the drafts of deleted sessions. Drafts of archived sessions stay.
 * @param isDeleted whether a session is deleted, by its id
 */
export async function deleteDraftsOfDeleted(isDeleted: (sessionId: string) => Promise<boolean>): Promise<void> {
  const sessionOf = (id: string) => /^(?:message|answer) (\S+)/.exec(id)?.[1];
  for (const sessionId of new Set([...drafts.value.keys()].map(sessionOf))) {
    if (sessionId === undefined || sessionId === NEW_SESSION || !(await isDeleted(sessionId))) continue;
    for (const id of drafts.value.keys()) if (sessionOf(id) === sessionId) setDraft(id, undefined);
  }
}

function withDraft(id: string, value: unknown): ReadonlyMap<string, unknown> {
  const changed = new Map(drafts.value);
  if (value === undefined) changed.delete(id);
  else changed.set(id, value);
  return changed;
}

/** Sets a draft; `undefined` deletes it. */
function setDraft(id: string, value: unknown): void {
  if (value === undefined && !drafts.value.has(id)) return;
  drafts.value = withDraft(id, value);
  postToTabs({ type: 'draft', id, value });
  unsaved.add(id);
  if (!isSaving) void saveDrafts();
}

/** Stores the changed drafts. Changes during a write are stored after it, and only the last change of each draft. */
async function saveDrafts(): Promise<void> {
  isSaving = true;
  while (database !== undefined && unsaved.size > 0) await saveUnsaved(database);
  isSaving = false;
}

/**
 * Stores the changed drafts without waiting for the writes before. Must be called when the page is closed. Copies them to `localStorage` at once,
 * because a browser may abort the writes of a page that is closed.
 */
export async function flushDrafts(): Promise<void> {
  if (database === undefined) return;
  const pending = new Map(readCopy());
  for (const id of [...unsaved, ...unconfirmed]) pending.set(id, drafts.value.get(id) ?? null);
  writeCopy([...pending]);
  await saveUnsaved(database);
}

async function saveUnsaved(opened: Promise<Database>): Promise<void> {
  const records = await opened;
  const ids = [...unsaved];
  unsaved.clear();
  for (const id of ids) unconfirmed.add(id);
  const saving = ids.map((id) => {
    const value = drafts.value.get(id);
    return value === undefined ? records.delete('draft', id) : records.put('draft', id, value);
  });
  try {
    await Promise.all(saving);
    for (const id of ids) unconfirmed.delete(id);
    if (localStorage.getItem(copyKey) !== null) writeCopy(readCopy().filter(([id]) => !ids.includes(id)));
  } catch (error) {
    console.warn('A draft cannot be stored in this browser.', error);
  }
}
