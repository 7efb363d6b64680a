/** The one place of the console's state. */

import { computed, signal } from '@preact/signals';
import type { ConnectionState } from '../api/channel.ts';
import { own } from '../own.ts';
import { unsentOf } from './conversation.ts';
import { type Conversation, EMPTY, EMPTY_CONVERSATION, type State } from './types.ts';

/** Everything that is known of the hub. */
export const state = signal<State>(EMPTY);

/** The namespace of who is signed in; null when nobody is. */
export const namespace = signal<string | null>(null);

/** Why the person has to sign in again. */
export const signedOutBecause = signal<string | null>(null);

/** How the event channel is. */
export const connection = signal<ConnectionState>('connecting');

/** What was missed is being read again. */
export const isCatchingUp = signal(false);

/** The session that is on the screen. */
export const openSession = signal<string | null>(null);

/** The messages of this many sessions stay while another is on the screen. */
const KEPT_CONVERSATIONS = 5;
let shownLast: string[] = [];

/** Puts a session on the screen. The messages of sessions that were there long ago go: they are read again with them. */
export function show(id: string): void {
  openSession.value = id;
  const { conversations } = state.value;
  const kept = Object.entries(conversations).map(([one, all]) => [one, shownLast.includes(one) ? all : unsentOf(all)] as const);
  patch({ conversations: Object.fromEntries(kept.filter(([, { messages, outgoing }]) => messages.length + outgoing.length > 0)) });
  shownLast = [id, ...shownLast.filter((one) => one !== id)].slice(0, KEPT_CONVERSATIONS);
}

/** Every session that is known, by id. */
export const summaries = computed(() => state.value.summaries);

/** Every machine that is online, by id. */
export const machines = computed(() => state.value.machines);

/** How far the lists are read. */
export const reading = {
  list: computed(() => state.value.list),
  archive: computed(() => state.value.archive),
  machines: computed(() => state.value.machinesRead),
};

/** How many agents wait for an answer, for the page's title. */
export const pendingCount = computed(() =>
  Object.values(summaries.value).reduce((sum, { active, pendingRequestsCount }) => sum + (active ? pendingRequestsCount : 0), 0),
);

/** Changes some of the state. */
export function patch(changes: Partial<State>): void {
  state.value = { ...state.value, ...changes };
}

/** A session's conversation, empty before it was read. */
export function conversationOf(id: string): Conversation {
  return own(state.value.conversations, id) ?? EMPTY_CONVERSATION;
}

/** Changes a session's conversation. */
export function changeConversation(id: string, change: (conversation: Conversation) => Conversation): void {
  patch({ conversations: { ...state.value.conversations, [id]: change(conversationOf(id)) } });
}
