/** Pure functions that add pages, received messages and outgoing messages to a conversation. */

import type { Message } from '../api/types.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { type Conversation, EMPTY_CONVERSATION, type Refetch } from './types.ts';

/** A conversation with more messages than this is trimmed to {@link TRIM_TO}. */
const TRIM_ABOVE = 400;
const TRIM_TO = 200;

/** The changed conversation, or the fetch that is necessary because the message cannot be added. */
export type MessageResult = { conversation: Conversation } | { refetch: Extract<Refetch['kind'], 'newer-messages' | 'messages'> };

/** Adds a message from an event. */
export function withMessage(conversation: Conversation, message: Message): MessageResult {
  // The first page may be older than this message, so fetch the messages after the page.
  if (conversation.loadState.status === 'loading') return { refetch: 'newer-messages' };
  if (conversation.loadState.status !== 'ready') return { conversation };
  const newest = conversation.messages.at(-1)?.seq ?? 0;
  if (message.seq > newest + 1) return { refetch: 'newer-messages' };
  if (message.seq === newest + 1) return { conversation: withMessages(conversation, [...conversation.messages, message]) };
  const known = conversation.messages.find(({ seq }) => seq === message.seq);
  // The `seq` belongs to another message now: a merge of two sessions has renumbered the history.
  return known && known.id !== message.id ? { refetch: 'messages' } : { conversation };
}

/** Replaces all messages by the newest page; `page` is newest first. */
export function withNewestPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  return { ...withMessages(conversation, page.toReversed()), loadState: { status: 'ready' }, hasOlder: hasMore };
}

/** Prepends a page of older messages; `page` is newest first. */
export function withOlderPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  const oldest = conversation.messages[0]?.seq ?? Infinity;
  const older = page.filter(({ seq }) => seq < oldest).toReversed();
  return { ...conversation, messages: [...older, ...conversation.messages], hasOlder: hasMore };
}

/** Appends newer messages; `page` is oldest first. */
export function withNewerPage(conversation: Conversation, page: Message[]): Conversation {
  const newest = conversation.messages.at(-1)?.seq ?? 0;
  return withMessages(conversation, [...conversation.messages, ...page.filter(({ seq }) => seq > newest)]);
}

/** Drops the oldest messages of a very long conversation. Scrolling up loads them again. */
export function trimOldest(conversation: Conversation): Conversation {
  if (conversation.messages.length <= TRIM_ABOVE) return conversation;
  return { ...conversation, messages: conversation.messages.slice(-TRIM_TO), hasOlder: true };
}

/** Drops everything that can be fetched again. Only unsent messages remain. */
export function withoutSynced({ outgoing }: Conversation): Conversation {
  return { ...EMPTY_CONVERSATION, outgoing: outgoing.filter((message) => message.status !== 'sent') };
}

/** Adds or replaces an outgoing message. */
export function withOutgoing(conversation: Conversation, outgoing: OutgoingMessage): Conversation {
  // The event of the stored message can arrive before the response to the request that sent it.
  if (conversation.messages.some(({ localId }) => localId === outgoing.localId)) return conversation;
  const known = conversation.outgoing.some(({ localId }) => localId === outgoing.localId);
  const updated = known
    ? conversation.outgoing.map((message) => (message.localId === outgoing.localId ? outgoing : message))
    : [...conversation.outgoing, outgoing];
  return { ...conversation, outgoing: updated };
}

export function withoutOutgoing(conversation: Conversation, localId: string): Conversation {
  return { ...conversation, outgoing: conversation.outgoing.filter((message) => message.localId !== localId) };
}

/** Sets the messages. Removes the outgoing messages and live texts that are now stored messages. */
function withMessages(conversation: Conversation, messages: Message[]): Conversation {
  const receivedIds = new Set(messages.map(({ localId }) => localId));
  return {
    ...conversation,
    messages,
    outgoing: conversation.outgoing.filter(({ localId }) => !receivedIds.has(localId)),
    live: conversation.live.filter(({ id }) => !receivedIds.has(id)),
  };
}
