/** Pure functions for live text: what the agent is writing, before its message is stored. */

import type { HubEvent } from '../api/types.ts';
import type { Conversation, LiveText } from './types.ts';

/** A text is not continued beyond this length, in characters. */
const MAX_LENGTH = 200_000;
/** The texts of one conversation: an agent and its sub-agents can write at the same time. */
const MAX_TEXTS = 8;

type Delta = Extract<HubEvent, { type: 'message-delta' }>;

/** Applies a delta. Ignores it if the message is already stored, or if an earlier delta is missing. */
export function withDelta(conversation: Conversation, { id, kind = 'text', offset, text }: Delta): Conversation {
  const { messages, live } = conversation;
  const known = live.find((other) => other.id === id);
  const before = known?.text ?? '';
  if (offset > before.length || offset + text.length > MAX_LENGTH) return conversation;
  if (messages.some(({ localId }) => localId === id)) return conversation;
  const updated: LiveText = { id, kind, text: before.slice(0, offset) + text };
  return { ...conversation, live: known ? live.map((other) => (other === known ? updated : other)) : [...live, updated].slice(-MAX_TEXTS) };
}

/** Drops the live text of all conversations. */
export function withoutLiveText(conversations: Record<string, Conversation>): Record<string, Conversation> {
  if (Object.values(conversations).every(({ live }) => live.length === 0)) return conversations;
  return Object.fromEntries(Object.entries(conversations).map(([id, conversation]) => [id, { ...conversation, live: [] }]));
}
