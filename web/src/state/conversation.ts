/** A session's messages as pages and events bring them, and those of this browser on their way out. */

import type { Message } from '../api/types.ts';
import { type Conversation, EMPTY_CONVERSATION, type Outgoing } from './types.ts';

/** Above this many messages the oldest of a conversation may go, */
const MANY = 400;
/** down to this many. */
const ENOUGH = 200;

/** What comes of taking messages in: the conversation, or what is to be read first. */
export type Taken = { conversation: Conversation } | { need: 'newer' | 'conversation' };

/** Takes in a message that an event brought. */
export function withMessage(conversation: Conversation, message: Message): Taken {
  // The first page may have been made before this message was: what comes after the page is asked for then.
  if (conversation.reading.status === 'reading') return { need: 'newer' };
  if (conversation.reading.status !== 'ready') return { conversation };
  const newest = conversation.messages.at(-1)?.seq ?? 0;
  if (message.seq > newest + 1) return { need: 'newer' };
  if (message.seq === newest + 1) return { conversation: joined(conversation, [...conversation.messages, message]) };
  const known = conversation.messages.find(({ seq }) => seq === message.seq);
  // Another message under a number that is here: the history was renumbered, as a merge of two sessions does.
  return known && known.id !== message.id ? { need: 'conversation' } : { conversation };
}

/** The conversation as the newest page has it; `page` is newest first. */
export function withNewestPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  return { ...joined(conversation, page.toReversed()), reading: { status: 'ready' }, hasOlder: hasMore };
}

/** Takes in a page of older messages; `page` is newest first. */
export function withOlderPage(conversation: Conversation, page: Message[], hasMore: boolean): Conversation {
  const oldest = conversation.messages[0]?.seq ?? Infinity;
  const older = page.filter(({ seq }) => seq < oldest).toReversed();
  return { ...conversation, messages: [...older, ...conversation.messages], hasOlder: hasMore };
}

/** Takes in messages that came after the newest; `page` is oldest first. */
export function withNewerPage(conversation: Conversation, page: Message[]): Conversation {
  const newest = conversation.messages.at(-1)?.seq ?? 0;
  return joined(conversation, [...conversation.messages, ...page.filter(({ seq }) => seq > newest)]);
}

/** Leaves the oldest of very many messages out: scrolling up reads them again. */
export function withoutOldest(conversation: Conversation): Conversation {
  if (conversation.messages.length <= MANY) return conversation;
  return { ...conversation, messages: conversation.messages.slice(-ENOUGH), hasOlder: true };
}

/** What is left of a conversation that may be read again: what this browser has not sent yet. */
export function unsentOf({ outgoing }: Conversation): Conversation {
  return { ...EMPTY_CONVERSATION, outgoing: outgoing.filter((one) => one.state !== 'sent') };
}

/** Adds an outgoing message, or changes one. */
export function withOutgoing(conversation: Conversation, outgoing: Outgoing): Conversation {
  // Its event may have come before the answer to the request that sent it.
  if (conversation.messages.some(({ localId }) => localId === outgoing.localId)) return conversation;
  const known = conversation.outgoing.some(({ localId }) => localId === outgoing.localId);
  const all = known
    ? conversation.outgoing.map((one) => (one.localId === outgoing.localId ? outgoing : one))
    : [...conversation.outgoing, outgoing];
  return { ...conversation, outgoing: all };
}

/** Takes an outgoing message out. */
export function withoutOutgoing(conversation: Conversation, localId: string): Conversation {
  return { ...conversation, outgoing: conversation.outgoing.filter((one) => one.localId !== localId) };
}

function joined(conversation: Conversation, messages: Message[]): Conversation {
  const arrived = new Set(messages.map(({ localId }) => localId));
  return { ...conversation, messages, outgoing: conversation.outgoing.filter(({ localId }) => !arrived.has(localId)) };
}
