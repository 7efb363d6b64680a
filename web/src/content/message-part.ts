/** The typed parts of a message. */

import type { Attachment, TodoItem } from '../api/types.ts';

/** The mark of a text that the next message continues (docs/PROTOCOL.md "Texts in parts"). */
export interface Continuation {
  /** The `localId` of the message that continues the text. */
  localId: string;
  /** The end of this text that is not part of the joined text, such as the closing fence of code. */
  end: string;
  /** The beginning of the next text that is not part of the joined text, such as the opening fence of code. */
  start: string;
}

/** What happened to a message that waited for the agent (docs/PROTOCOL.md "The queue"). */
export interface QueueChange {
  /** The id of the message. */
  id: string;
  change: 'started' | 'canceled';
  /** The text that the agent received, if a user has edited the message. */
  text?: string;
}

/** `parentId`: for a part that a sub-agent wrote, the id of the call that started the sub-agent. */
export type MessagePart = { parentId?: string } & (
  | { kind: 'user'; text: string; attachments: Attachment[]; from: string | undefined }
  | { kind: 'text' | 'thinking'; text: string; continuedBy?: Continuation }
  | { kind: 'tool'; id: string; name: string; input: unknown }
  /** `images`: data URLs. `isFinal`: no further result of the call follows. `isImage`: the result is an excerpt that ends in an image. */
  | { kind: 'result'; id: string; text: string; images: string[]; isError: boolean; isFinal?: true; isImage?: boolean }
  | { kind: 'image'; url: string }
  | { kind: 'plan'; todos: TodoItem[] }
  | { kind: 'event'; name: string; text: string | undefined }
  /** `text`: the sentence of a note; absent if the change is visible at the message itself. */
  | { kind: 'queue'; changes: QueueChange[]; text: string | undefined }
  | { kind: 'error'; text: string }
  /** A message that must be loaded before any part of it can be shown. */
  | { kind: 'large'; isImage?: boolean }
  | { kind: 'unknown'; json: unknown }
);
