/** Loads messages in the middle of a session's history, for search results and links to a message. */

import { PAGE_SIZE } from '../api/first-requests.ts';
import { withOlderPage, withPagesAround } from './conversation.ts';
import { getConversation, updateConversation } from './store.ts';
import { MAX_PAGE_SIZE, type Sync } from './sync.ts';

/**
 * Loads the message with a seq, and the messages around it. The loaded messages remain if they are near; otherwise they are replaced.
 * @throws {HubError} if the hub cannot be reached
 */
export async function fetchMessagesAround(sync: Sync, id: string, seq: number): Promise<void> {
  let failure: unknown;
  await sync.serialize(id, () =>
    fetchAround(sync, id, seq).catch((error: unknown) => {
      failure = error;
    }),
  );
  if (failure !== undefined) throw failure;
}

async function fetchAround(sync: Sync, id: string, seq: number): Promise<void> {
  const { messages, hasOlder, hasNewer } = getConversation(id);
  const [oldest, newest] = [messages[0]?.seq ?? 0, messages.at(-1)?.seq ?? 0];
  if (seq >= oldest && (seq <= newest || !hasNewer)) return;
  const distance = oldest - seq;
  if (hasOlder && distance > 0 && distance < MAX_PAGE_SIZE - PAGE_SIZE) {
    const page = await sync.fetchPage(id, { limit: distance + PAGE_SIZE, beforeSeq: oldest });
    updateConversation(id, (conversation) => withOlderPage(conversation, page.messages, page.hasMore));
    // A page with large messages is shorter than its limit.
    if ((page.messages.at(-1)?.seq ?? 0) <= seq) return;
  }
  const [older, newer] = await Promise.all([
    sync.fetchPage(id, { limit: PAGE_SIZE, beforeSeq: seq }),
    sync.fetchPage(id, { limit: PAGE_SIZE, afterSeq: seq - 1 }),
  ]);
  updateConversation(id, (conversation) => withPagesAround(conversation, older, newer));
  if (!newer.hasMore) await sync.fetchPagesAfter(id);
}
