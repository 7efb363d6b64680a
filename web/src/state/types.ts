/** What the console knows, in one value that never changes: every change makes a new one. */

import type { Attachment, Machine, Message, Session, SessionSummary } from '../api/types.ts';

/** How far something has been read from the hub. */
export type Reading = { status: 'none' } | { status: 'reading' } | { status: 'ready' } | { status: 'failed'; error: string };

/** A message of this browser that is not among the session's messages yet. */
export interface Outgoing {
  localId: string;
  text: string;
  attachments: Attachment[];
  createdAt: number;
  /** `waiting`: the hub cannot take it now, and it goes out by itself. `failed`: a person has to decide. */
  state: 'sending' | 'sent' | 'waiting' | 'failed';
  error?: string;
}

/** The part of a session's messages that is here. */
export interface Conversation {
  reading: Reading;
  /** By seq, ascending, without gaps up to the newest that is known. */
  messages: Message[];
  hasOlder: boolean;
  outgoing: Outgoing[];
}

/** Why a session cannot be shown. */
export interface Unshown {
  text: string;
  /** It is not there, and asking again changes nothing. */
  isGone: boolean;
}

export interface State {
  /** How far the list of sessions that are not archived is read. */
  list: Reading;
  /** How far the list of archived sessions is read. */
  archive: Reading;
  summaries: Record<string, SessionSummary>;
  /** Sessions that were opened, whole. */
  sessions: Record<string, Session>;
  /** Why a session that was opened cannot be shown. */
  sessionErrors: Record<string, Unshown>;
  conversations: Record<string, Conversation>;
  machinesRead: Reading;
  machines: Record<string, Machine>;
}

/** Something that has to be read from the hub, because events alone do not tell it. */
export type Need =
  | { kind: 'list' }
  | { kind: 'machines' }
  /** One session, whole. */
  | { kind: 'session'; id: string }
  /** Messages after the newest that is here. */
  | { kind: 'newer'; id: string }
  /** All of the conversation: what is here is not what the hub has. */
  | { kind: 'conversation'; id: string };

const NOTHING: Reading = { status: 'none' };

export const EMPTY_CONVERSATION: Conversation = { reading: NOTHING, messages: [], hasOlder: false, outgoing: [] };

export const EMPTY: State = {
  list: NOTHING,
  archive: NOTHING,
  summaries: {},
  sessions: {},
  sessionErrors: {},
  conversations: {},
  machinesRead: NOTHING,
  machines: {},
};
