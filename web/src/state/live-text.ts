/** Pure functions for live text: the text of a message that the agent is still writing. */

import type { HubEvent } from '../api/types.ts';
import type { LivePiece, LiveText } from '../content/unstored-messages.ts';
import type { Conversation } from './types.ts';

/** Limit on a text in characters. The beginning of a longer text is dropped. */
const MAX_CHARS = 200_000;
/** Limit on the pieces of a text. Of a text with more pieces, only the last piece is kept. */
const MAX_PIECES = 20;
/** Limit on the texts of one conversation: an agent and its sub-agents can write at the same time. */
const MAX_TEXTS = 8;

type Delta = Extract<HubEvent, { type: 'message-delta' }>;

/** Applies a delta. Ignores the delta if the message is already stored. */
export function withDelta(conversation: Conversation, { id, kind = 'text', offset, text }: Delta): Conversation {
  const { messages, live } = conversation;
  if (messages.some(({ localId }) => localId === id)) return conversation;
  const known = live.find((liveText) => liveText.id === id);
  const updated: LiveText = { id, kind, pieces: withinLimits(withPiece(known?.pieces ?? [], { start: offset, text })) };
  return {
    ...conversation,
    live: known ? live.map((liveText) => (liveText === known ? updated : liveText)) : [...live, updated].slice(-MAX_TEXTS),
  };
}

/** Adds a piece, and drops earlier text after the start of the piece. */
function withPiece(pieces: LivePiece[], piece: LivePiece): LivePiece[] {
  const before = pieces
    .filter(({ start }) => start < piece.start)
    .map(({ start, text }) => ({ start, text: text.slice(0, piece.start - start) }));
  const last = before.at(-1);
  if (!last || last.start + last.text.length < piece.start) return [...before, piece];
  return [...before.slice(0, -1), { start: last.start, text: last.text + piece.text }];
}

/** Keeps only the end of the last piece if the text exceeds a limit. */
function withinLimits(pieces: LivePiece[]): LivePiece[] {
  const last = pieces.at(-1);
  const length = pieces.reduce((sum, { text }) => sum + text.length, 0);
  if (!last || (length <= MAX_CHARS && pieces.length <= MAX_PIECES)) return pieces;
  const excess = Math.max(0, last.text.length - MAX_CHARS / 2);
  return [{ start: last.start + excess, text: last.text.slice(excess) }];
}

/** Drops the live text with the id `id`. */
export function withoutLiveTextOf(conversation: Conversation, id: string): Conversation {
  return { ...conversation, live: conversation.live.filter((text) => text.id !== id) };
}

/** Drops the live text of all conversations. */
export function withoutLiveText(conversations: Record<string, Conversation>): Record<string, Conversation> {
  if (Object.values(conversations).every(({ live }) => live.length === 0)) return conversations;
  return Object.fromEntries(Object.entries(conversations).map(([id, conversation]) => [id, { ...conversation, live: [] }]));
}
