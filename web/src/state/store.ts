/** The store: signals with all state that views share. */

import { computed, signal } from '@preact/signals';
import type { ConnectionState } from '../api/channel.ts';
import { withoutSynced } from './conversation.ts';
import { getOwn } from './get-own.ts';
import { type Conversation, EMPTY_CONVERSATION, EMPTY_STATE, type State } from './types.ts';

/** The data from the hub, with the outgoing messages. */
export const state = signal<State>(EMPTY_STATE);

/** The namespace of the signed-in account; null when signed out. */
export const namespace = signal<string | null>(null);

/** Why the user was signed out, for the sign-in page. */
export const signOutReason = signal<string | null>(null);

export const connectionState = signal<ConnectionState>('connecting');

/** Whether the browser stores drafts and unsent messages. */
export const hasDurableStorage = signal(true);

/** Whether the page is fetching data again after a gap in the events. */
export const isCatchingUp = signal(false);

/** The session that is open; null in all other views. */
export const openSessionId = signal<string | null>(null);

/** Limit on the closed sessions whose loaded messages are kept. */
const MAX_CACHED_CONVERSATIONS = 5;
let recentIds: string[] = [];

/** Sets the open session, and drops the loaded messages of the sessions that were not open recently. */
export function setOpenSession(id: string): void {
  openSessionId.value = id;
  const { conversations } = state.value;
  const remaining = Object.entries(conversations).map(
    ([other, conversation]) => [other, recentIds.includes(other) ? conversation : withoutSynced(conversation)] as const,
  );
  patchState({
    conversations: Object.fromEntries(remaining.filter(([, { messages, outgoing }]) => messages.length + outgoing.length > 0)),
  });
  recentIds = [id, ...recentIds.filter((other) => other !== id)].slice(0, MAX_CACHED_CONVERSATIONS);
}

export const summaries = computed(() => state.value.summaries);

/** When the shown list of sessions was stored in this browser; null if the list is from the hub. */
export const listSavedAt = computed(() => state.value.listSavedAt);

/** The machines that are online, by id. */
export const machines = computed(() => state.value.machines);

export const loadStates = {
  list: computed(() => state.value.listLoad),
  archive: computed(() => state.value.archiveLoad),
  machines: computed(() => state.value.machinesLoad),
  config: computed(() => state.value.configLoad),
};

/** Whether the first fetch of the deployment's configuration has ended, with or without success. */
export const isConfigSettled = computed(() => ['ready', 'failed'].includes(state.value.configLoad.status));

/** The number of pending requests of all agents, for the page title. */
export const pendingRequestCount = computed(() =>
  Object.values(summaries.value).reduce((sum, { active, pendingRequestsCount }) => sum + (active ? pendingRequestsCount : 0), 0),
);

export function patchState(changes: Partial<State>): void {
  state.value = { ...state.value, ...changes };
}

/** Returns a session's conversation, or an empty conversation if none is loaded. */
export function getConversation(id: string): Conversation {
  return getOwn(state.value.conversations, id) ?? EMPTY_CONVERSATION;
}

export function updateConversation(id: string, change: (conversation: Conversation) => Conversation): void {
  patchState({ conversations: { ...state.value.conversations, [id]: change(getConversation(id)) } });
}
