/** What the open session shows on request: a certain message, the search, or a dialog. */

import { signal } from '@preact/signals';

export interface JumpTarget {
  sessionId: string;
  seq: number;
  /** The searched text, which the item with the message contains; null to show the message at the top. */
  query: string | null;
}

/** The message to show. A new object shows the same message again. */
export const jumpTarget = signal<JumpTarget | null>(null);

/** The id of the search's text field in the page. */
export const SEARCH_FIELD_ID = 'session-search';

/** The session whose search is open. */
export const searchedSessionId = signal<string | null>(null);

export interface ForkPoint {
  sessionId: string;
  /** The history of the fork ends before this message. */
  seq: number;
  /** The text of the message, which becomes the draft of the new session. */
  text: string;
}

/** The point of the fork whose dialog is open. */
export const forkPoint = signal<ForkPoint | null>(null);

/** A dialog of a session: the colour, the export, or the commands for the terminal. */
export type SessionDialogKind = 'color' | 'export' | 'terminal';

/** The open dialog of a session. */
export const sessionDialog = signal<{ sessionId: string; kind: SessionDialogKind } | null>(null);
