/** Pure functions that add pages, received messages and outgoing messages to a conversation. */

import type { Message } from '../api/types.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { type Conversation, EMPTY_CONVERSATION, type Refetch } from './types.ts';

/** {@link trimOldest} trims a conversation with more messages. */
const TRIM_OLDEST_ABOVE = 400;
const TRIM_OLDEST_TO = 200;
/** {@link trimNewest} trims a conversation with more messages: 4,000 messages take about 20 MB. */
const TRIM_NEWEST_ABOVE = 4000;
const TRIM_NEWEST_TO = 3000;

/** The changed conversation, or the fetch that is necessary because the message cannot be added. */
export type MessageResult = { conversation: Conversation } | { refetch: Extract<Refetch['kind'], 'newer-messages' | 'newest-messages'> };

/** Adds a message from an event. */
export function withMessage(conversation: Conversation, message: Message): MessageResult {
  // The page that is being fetched may be older than this message, so fetch the messages after the page.
  if (conversation.loadState.status === 'loading') return { refetch: 'newer-messages' };
  if (conversation.loadState.status !== 'ready' || conversation.hasNewer) return { conversation };
  const newest = conversation.messages.at(-1)?.seq ?? 0;
  if (message.seq > newest + 1) return { refetch: 'newer-messages' };
  if (message.seq === newest + 1) return { conversation: withMessages(conversation, [...conversation.messages, message]) };
  const known = conversation.messages.find(({ seq }) => seq === message.seq);
  // The `seq` belongs to another message now: a merge of two sessions has renumbered the history.
  return known && known.id !== message.id ? { refetch: 'newest-messages' } : { conversation };
}

/** Replaces all messages by the newest page; `page` is newest first. */
export function withNewestPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  return { ...withMessages(conversation, page.toReversed()), loadState: { status: 'ready' }, hasOlder: hasMore, hasNewer: false };
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

/** Appends the next page to messages in the middle of the history; `page` is oldest first. */
export function withNextPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  return { ...withNewerPage(conversation, page), hasNewer: hasMore };
}

/** A page of messages, and whether the history continues after it. */
export interface MessagePage {
  messages: Message[];
  hasMore: boolean;
}

/** Replaces all messages by a part of the history. `older` is newest first, and `newer`, which follows it, is oldest first. */
export function withPagesAround(conversation: Conversation, older: MessagePage, newer: MessagePage): Conversation {
  const messages = [...older.messages.toReversed(), ...newer.messages];
  return { ...withMessages(conversation, messages), loadState: { status: 'ready' }, hasOlder: older.hasMore, hasNewer: newer.hasMore };
}

/** Drops the oldest messages of a very long conversation. Scrolling up loads them again. */
export function trimOldest(conversation: Conversation): Conversation {
  if (conversation.messages.length <= TRIM_OLDEST_ABOVE) return conversation;
  return { ...conversation, messages: conversation.messages.slice(-TRIM_OLDEST_TO), hasOlder: true };
}

/** Drops the newest messages of a very long conversation. Scrolling down loads them again. */
export function trimNewest(conversation: Conversation): Conversation {
  if (conversation.messages.length <= TRIM_NEWEST_ABOVE) return conversation;
  return { ...conversation, messages: conversation.messages.slice(0, TRIM_NEWEST_TO), hasNewer: true };
}

/** Drops everything that can be fetched again. Only unsent messages remain. */
export function keepUnsentOnly({ outgoing }: Conversation): Conversation {
  return { ...EMPTY_CONVERSATION, outgoing: outgoing.filter(isUnsent) };
}

/** Whether only this browser has a message. */
export const isUnsent = ({ status }: OutgoingMessage): boolean => status !== 'sent' && status !== 'held';

/** Replaces the held messages by the messages that the hub holds. Held messages come before the messages that this browser has not sent. */
export function withHeld(conversation: Conversation, held: Pick<OutgoingMessage, 'localId' | 'text' | 'createdAt'>[]): Conversation {
  const others = conversation.outgoing.filter(({ status }) => status !== 'held');
  if (held.length === 0 && others.length === conversation.outgoing.length) return conversation;
  const known = new Set([...conversation.messages, ...others].map(({ localId }) => localId));
  const shown = held.filter(({ localId }) => !known.has(localId));
  return {
    ...conversation,
    outgoing: [...shown.map((message): OutgoingMessage => ({ ...message, attachments: [], status: 'held' })), ...others],
  };
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
