/** Answers to agents that are half written. They last as long as the page, for whoever looks elsewhere meanwhile. */

import { signal } from '@preact/signals';

/** What a person has begun to answer to a request. */
export interface AnswerDraft {
  /** Why it is denied. */
  reason: string;
  /** Per question, by its key, the choices. */
  chosen: ReadonlyMap<string, string[]>;
  /** Per question, by its key, the answer in own words. */
  written: ReadonlyMap<string, string>;
}

const NOTHING: AnswerDraft = { reason: '', chosen: new Map(), written: new Map() };

const drafts = signal<Readonly<Record<string, AnswerDraft>>>({});

const keyOf = (sessionId: string, requestId: string) => `${sessionId} ${requestId}`;

/** The answer that was begun to a request; empty when none was. */
export function draftOf(sessionId: string, requestId: string): AnswerDraft {
  return drafts.value[keyOf(sessionId, requestId)] ?? NOTHING;
}

/** Keeps what was written of an answer. */
export function keepDraft(sessionId: string, requestId: string, changes: Partial<AnswerDraft>): void {
  drafts.value = { ...drafts.value, [keyOf(sessionId, requestId)]: { ...draftOf(sessionId, requestId), ...changes } };
}

/** Forgets an answer that was given. */
export function dropDraft(sessionId: string, requestId: string): void {
  const { [keyOf(sessionId, requestId)]: _, ...others } = drafts.value;
  drafts.value = others;
}
