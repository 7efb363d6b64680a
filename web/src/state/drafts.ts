/** Drafts of answers to permission requests and questions, kept in the tab across reloads. */

import { signal } from '@preact/signals';
import { saveItem } from './storage.ts';

const KEY = 'answers';

export interface AnswerDraft {
  /** The reason for a denial. */
  reason: string;
  /** By the question's key. */
  selectedOptions: ReadonlyMap<string, string[]>;
  /** The free-text answers, by the question's key. */
  typedTexts: ReadonlyMap<string, string>;
}

/** An {@link AnswerDraft} as JSON. The names must not change: a tab keeps its drafts across a deploy. */
interface StoredDraft {
  reason: string;
  chosen: [string, string[]][];
  written: [string, string][];
}

const EMPTY_DRAFT: AnswerDraft = { reason: '', selectedOptions: new Map(), typedTexts: new Map() };

/** The drafts by {@link draftKey}. */
const drafts = signal<ReadonlyMap<string, AnswerDraft>>(new Map());

const draftKey = (sessionId: string, requestId: string) => `${sessionId} ${requestId}`;

/** Restores the drafts that this tab stored before a reload. */
export function restoreDrafts(): void {
  const stored = JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as [string, StoredDraft][];
  drafts.value = new Map(stored.map(([key, { reason, chosen, written }]) => [key, { reason, selectedOptions: new Map(chosen), typedTexts: new Map(written) }]));
}

/** Returns the draft of an answer, empty if there is none. */
export function getDraft(sessionId: string, requestId: string): AnswerDraft {
  return drafts.value.get(draftKey(sessionId, requestId)) ?? EMPTY_DRAFT;
}

export function updateDraft(sessionId: string, requestId: string, changes: Partial<AnswerDraft>): void {
  saveDrafts(new Map(drafts.value).set(draftKey(sessionId, requestId), { ...getDraft(sessionId, requestId), ...changes }));
}

export function deleteDraft(sessionId: string, requestId: string): void {
  const others = new Map(drafts.value);
  if (others.delete(draftKey(sessionId, requestId))) saveDrafts(others);
}

function saveDrafts(next: ReadonlyMap<string, AnswerDraft>): void {
  drafts.value = next;
  const stored = [...next].map(([key, { reason, selectedOptions, typedTexts }]): [string, StoredDraft] => [key, { reason, chosen: [...selectedOptions], written: [...typedTexts] }]);
  saveItem(sessionStorage, KEY, JSON.stringify(stored));
}
