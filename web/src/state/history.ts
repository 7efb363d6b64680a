/** Reads the stored messages of a session page by page, without adding them to the state. */

import { unwrap } from '../api/client.ts';
import type { Message } from '../api/types.ts';
import { findFirst } from '../content/find-first.ts';
import { api } from './hub-client.ts';

/** The hub's limit on the messages of a page. */
const PAGE_SIZE = 200;

interface Query {
  limit: number;
  beforeSeq?: number;
  afterSeq?: number;
  excerpts?: 'true';
}

function fetchPage(id: string, query: Query, signal?: AbortSignal) {
  return unwrap(api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query }, ...(signal ? { signal } : {}) }));
}

/** Returns the seq of the newest message; 0 without messages. */
export async function fetchNewestSeq(id: string, signal?: AbortSignal): Promise<number> {
  return (await fetchPage(id, { limit: 1, excerpts: 'true' }, signal)).messages[0]?.seq ?? 0;
}

/** Yields the pages before a message, newest first, with excerpts of large messages. */
export async function* readBackwards(id: string, beforeSeq: number, signal: AbortSignal): AsyncGenerator<Message[]> {
  for (let before = beforeSeq, hasMore = true; hasMore; ) {
    const page = await fetchPage(id, { limit: PAGE_SIZE, beforeSeq: before, excerpts: 'true' }, signal);
    const oldest = page.messages.at(-1)?.seq;
    if (oldest === undefined) return;
    yield page.messages;
    before = oldest;
    hasMore = page.hasMore;
  }
}

/** Yields all messages, oldest first and complete. The hub limits the bytes of a page. */
export async function* readAll(id: string, signal: AbortSignal): AsyncGenerator<Message[]> {
  for (let after = 0, hasMore = true; hasMore; ) {
    const page = await fetchPage(id, { limit: PAGE_SIZE, afterSeq: after }, signal);
    const newest = page.messages.at(-1)?.seq;
    if (newest === undefined) return;
    yield page.messages;
    after = newest;
    hasMore = page.hasMore;
  }
}

/**
 * Returns the seq of the first message at or after a time, or null if all messages are older. Needs one request for each halving of
 * the history, because messages are stored in the order of time.
 */
export async function findFirstSince(id: string, time: number, signal?: AbortSignal): Promise<number | null> {
  const messageAfter = async (seq: number) => (await fetchPage(id, { limit: 1, afterSeq: seq, excerpts: 'true' }, signal)).messages[0];
  return findFirst(await fetchNewestSeq(id, signal), ({ createdAt }) => createdAt >= time, messageAfter);
}
