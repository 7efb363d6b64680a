/** Messages that the hub has not stored: those written in this browser, and the text that the agent is writing. */

import type { Attachment } from '../api/types.ts';

/** A message that was written in this browser and is not among the session's messages yet. */
export interface OutgoingMessage {
  localId: string;
  text: string;
  attachments: Attachment[];
  createdAt: number;
  /** `waiting`: the hub is unavailable; the outbox retries by itself. `failed`: rejected; the user retries or discards it. */
  status: 'sending' | 'sent' | 'waiting' | 'failed';
  error?: string;
  /** The browser could not store it: it is lost when the page is closed. */
  isVolatile?: boolean;
}

/** A piece of a text. */
export interface LivePiece {
  /** Where it begins in the text, in UTF-16 code units. */
  start: number;
  text: string;
}

/** The text of a message that the agent is writing. */
export interface LiveText {
  /** The `localId` of the message that will be stored. */
  id: string;
  kind: 'text' | 'thinking';
  /** In order. Text is missing between two pieces, and before the first one if it does not start at 0. */
  pieces: LivePiece[];
}
