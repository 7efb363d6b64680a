/** The types of the console's state. The state is one immutable value: every change creates a new value. */

import type { LoadState } from '../api/load-state.ts';
import type { Config, Machine, Message, Session, SessionSummary } from '../api/types.ts';
import { EMPTY_INBOX, type Inbox } from './inbox.ts';
import type { LiveText, OutgoingMessage } from '../content/unstored-messages.ts';

/** The loaded messages of a session. */
export interface Conversation {
  loadState: LoadState;
  /** In ascending order of `seq`, without gaps. */
  messages: Message[];
  hasOlder: boolean;
  /** Whether the hub has newer messages: the loaded messages are a part in the middle, and events add no messages. */
  hasNewer: boolean;
  outgoing: OutgoingMessage[];
  live: LiveText[];
}

/** Why an opened session cannot be shown. */
export interface SessionError {
  text: string;
  /** Whether the session does not exist or belongs to another namespace, so that a retry cannot help. */
  isGone: boolean;
}

export interface State {
  /** The state of the list of sessions that are not archived. */
  listLoad: LoadState;
  /** When the list that is shown was stored in this browser, in Unix milliseconds; null once the hub's list is loaded. */
  listSavedAt: number | null;
  archiveLoad: LoadState;
  /** All listed sessions, archived or not. */
  summaries: Record<string, SessionSummary>;
  /** The full sessions that were opened. */
  sessions: Record<string, Session>;
  /** When the sessions in `sessions` that the hub has not sent yet were stored in this browser, in Unix milliseconds. */
  storedSessions: Record<string, number>;
  sessionErrors: Record<string, SessionError>;
  conversations: Record<string, Conversation>;
  machinesLoad: LoadState;
  configLoad: LoadState;
  /** The deployment's configuration, or the configuration that this browser has stored; null until there is one. */
  config: Config | null;
  machines: Record<string, Machine>;
  inbox: Inbox;
}

/** A fetch that is needed because an event does not contain all the data. */
export type Refetch =
  | { kind: 'sessions' }
  | { kind: 'machines' }
  | { kind: 'inbox' }
  | { kind: 'session'; id: string }
  /** The messages that wait until the session's CLI is back. */
  | { kind: 'held-messages'; id: string }
  /** Messages after the newest loaded message. */
  | { kind: 'newer-messages'; id: string }
  /** The newest page, which replaces all loaded messages: they no longer match the hub's messages. */
  | { kind: 'newest-messages'; id: string };

const NOT_LOADED: LoadState = { status: 'idle' };

export const EMPTY_CONVERSATION: Conversation = {
  loadState: NOT_LOADED,
  messages: [],
  hasOlder: false,
  hasNewer: false,
  outgoing: [],
  live: [],
};

export const EMPTY_STATE: State = {
  listLoad: NOT_LOADED,
  listSavedAt: null,
  archiveLoad: NOT_LOADED,
  summaries: {},
  sessions: {},
  storedSessions: {},
  sessionErrors: {},
  conversations: {},
  machinesLoad: NOT_LOADED,
  configLoad: NOT_LOADED,
  config: null,
  machines: {},
  inbox: EMPTY_INBOX,
};
