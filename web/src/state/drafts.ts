/** Drafts of answers to agents. They last as long as the tab, across reloads. */

import { signal } from '@preact/signals';
import { keep } from './shelf.ts';

const KEY = 'answers';

/** The draft of an answer to a request. */
export interface AnswerDraft {
  /** The reason for a denial. */
  reason: string;
  /** The chosen options by the question's key. */
  chosen: ReadonlyMap<string, string[]>;
  /** The written answer by the question's key. */
  written: ReadonlyMap<string, string>;
}

/** An {@link AnswerDraft} as JSON. */
interface StoredDraft {
  reason: string;
  chosen: [string, string[]][];
  written: [string, string][];
}

const EMPTY: AnswerDraft = { reason: '', chosen: new Map(), written: new Map() };

/** The drafts by {@link keyOf}. */
const drafts = signal<ReadonlyMap<string, AnswerDraft>>(new Map());

const keyOf = (sessionId: string, requestId: string) => `${sessionId} ${requestId}`;

/** Restores the drafts that this tab stored before a reload. */
export function restoreDrafts(): void {
  const stored = JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as [string, StoredDraft][];
  drafts.value = new Map(stored.map(([key, { reason, chosen, written }]) => [key, { reason, chosen: new Map(chosen), written: new Map(written) }]));
}

/** The draft of an answer to a request; empty when there is none. */
export function draftOf(sessionId: string, requestId: string): AnswerDraft {
  return drafts.value.get(keyOf(sessionId, requestId)) ?? EMPTY;
}

/** Changes and stores the draft of an answer. */
export function keepDraft(sessionId: string, requestId: string, changes: Partial<AnswerDraft>): void {
  store(new Map(drafts.value).set(keyOf(sessionId, requestId), { ...draftOf(sessionId, requestId), ...changes }));
}

/** Deletes the draft of an answer. */
export function dropDraft(sessionId: string, requestId: string): void {
  const others = new Map(drafts.value);
  if (others.delete(keyOf(sessionId, requestId))) store(others);
}

function store(next: ReadonlyMap<string, AnswerDraft>): void {
  drafts.value = next;
  const stored = [...next].map(([key, { reason, chosen, written }]): [string, StoredDraft] => [key, { reason, chosen: [...chosen], written: [...written] }]);
  keep(sessionStorage, KEY, JSON.stringify(stored));
}
