/** Messages that the hub has not stored: messages of the user in this browser, and the text that the agent is writing. */

import type { Attachment } from '../api/types.ts';

/** A message of a user that is not among the session's messages yet. All but held messages were written in this browser. */
export interface OutgoingMessage {
  localId: string;
  text: string;
  attachments: Attachment[];
  createdAt: number;
  /**
   * `waiting`: the hub is unavailable, and the outbox retries by itself. `failed`: the hub rejected the message; the user decides.
   * `held`: the hub has the message, and sends it when the session's CLI is back.
   */
  status: 'sending' | 'sent' | 'waiting' | 'failed' | 'held';
  /** Whether the hub may hold the message while the CLI is away. */
  mayWait?: boolean;
  error?: string;
  /** Whether the browser could not store the message, so that it is lost when the page is closed. */
  isVolatile?: boolean;
}

/** A received piece of a live text. */
export interface LivePiece {
  /** The offset of the piece in the text, in UTF-16 code units. */
  start: number;
  text: string;
}

/** The text of a message that the agent is writing. */
export interface LiveText {
  /** The `localId` of the message that will be stored. */
  id: string;
  kind: 'text' | 'thinking';
  /** In order. Text is missing between two pieces, and before a first piece that does not start at 0. */
  pieces: LivePiece[];
}
