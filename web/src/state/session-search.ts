/** Searches all messages of a session for a text. */

import { containsText } from '../content/search-text.ts';
import { fetchNewestSeq, readBackwards } from './history.ts';
import { getConversation } from './store.ts';

/** Limit on the hits. */
export const MAX_HITS = 1000;

export interface SearchProgress {
  /** The seqs of the messages with the text, newest first. */
  hits: number[];
  /** How many messages were searched, and how many there are. */
  searched: number;
  total: number;
  isComplete: boolean;
}

/**
 * Yields the hits so far, first of the loaded messages, and then after each page of older messages. Keeps no messages.
 * @throws {HubError} if a page cannot be fetched
 */
export async function* searchSession(id: string, text: string, signal: AbortSignal): AsyncGenerator<SearchProgress> {
  const { messages, hasOlder, hasNewer } = getConversation(id);
  // If the loaded messages end in the middle of the history, all messages are read from the hub, so that the hits are in order.
  const loaded = hasNewer ? [] : messages.toReversed();
  const newest = hasNewer ? await fetchNewestSeq(id, signal) : (messages.at(-1)?.seq ?? 0);
  const hits = loaded.filter((message) => containsText(message, text)).map(({ seq }) => seq);
  const progress = (before: number, isComplete: boolean): SearchProgress => ({
    hits: hits.slice(0, MAX_HITS),
    searched: isComplete ? newest : newest - before + 1,
    total: newest,
    isComplete,
  });
  const before = loaded.at(-1)?.seq ?? newest + 1;
  const isComplete = newest === 0 || (!hasNewer && !hasOlder);
  yield progress(before, isComplete);
  if (isComplete) return;
  for await (const page of readBackwards(id, before, signal)) {
    hits.push(...page.filter((message) => containsText(message, text)).map(({ seq }) => seq));
    if (hits.length >= MAX_HITS) break;
    yield progress(page.at(-1)?.seq ?? 1, false);
  }
  yield progress(1, true);
}
