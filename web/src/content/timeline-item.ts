/** The items of a conversation. */

import type { CompletedRequest } from '../api/types.ts';
import type { CutMessage } from './excerpt.ts';
import type { MessagePart } from './message-part.ts';
import type { LiveText, OutgoingMessage } from './unstored-messages.ts';

/** The stored messages of an item. */
interface Source {
  /** The seq of the item's first message; absent for an item without a stored message. */
  seq?: number;
  /** The seqs of the messages that continue the item, such as the results of a call. */
  moreSeqs?: number[];
  /** The messages of the item that are shown only as excerpts. */
  cut?: CutMessage[];
}

/** A tool call with its output so far. */
export interface ToolItem extends Source {
  kind: 'tool';
  key: string;
  name: string;
  input: unknown;
  output: string;
  /** Data URLs of the images in the output. */
  images: string[];
  /** `waiting`: the permission request of the call waits for the user's answer. `unknown`: only the stored state is known. */
  state: 'running' | 'waiting' | 'done' | 'failed' | 'unknown';
  /** The completed permission request of the call, if there was one. */
  permission?: CompletedRequest;
  /** The items of the sub-agent that this call started. */
  children?: TimelineItem[];
  createdAt: number;
}

type TextKind = LiveText['kind'];

/** A text of the agent: one message, or several messages that are parts of one text. */
export interface TextItem extends Source {
  kind: TextKind;
  /** The key of the first part, stored or not. */
  key: string;
  text: string;
  /** `Infinity` if no part is stored. */
  createdAt: number;
  /** Whether the agent is still writing the text. */
  isLive?: boolean;
  /** Whether the beginning is missing, so that the text is not valid Markdown. */
  isTail?: boolean;
}

/**
 * A message of the user. `isQueued`: the message waits for the agent. `outcome`: what a user changed while the message waited. The text
 * of an edited message is the text that the agent received.
 */
export type UserItem = Extract<MessagePart, { kind: 'user' }> & {
  key: string;
  createdAt: number;
  isQueued: boolean;
  outcome?: 'edited' | 'canceled';
} & Source;

export type TimelineItem = (
  | ToolItem
  | TextItem
  | (Exclude<MessagePart, { kind: 'tool' | 'result' | 'user' | 'queue' | TextKind }> & { key: string; createdAt: number })
  | UserItem
  | { kind: 'result'; key: string; text: string; images: string[]; isError: boolean; createdAt: number }
  | { kind: 'permission'; key: string; request: CompletedRequest; createdAt: number }
  | { kind: 'outgoing'; key: string; outgoing: OutgoingMessage }
) &
  Source;

export type PlanItem = Extract<TimelineItem, { kind: 'plan' }>;

/** Adds a message that continues an item. */
export function addSeq(item: Source, seq: number): void {
  (item.moreSeqs ??= []).push(seq);
}

/** Records that a message has replaced the content of an item. `cut`: the message, if the console shows only an excerpt of it. */
export function recordReplacement(item: TimelineItem, seq: number, cut: CutMessage[] | undefined): void {
  addSeq(item, seq);
  if (cut) item.cut = cut;
  else delete item.cut;
}

export const partKey = (messageId: string, index: number): string => `message ${messageId} ${index}`;
