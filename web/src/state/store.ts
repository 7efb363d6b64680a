/** The store: signals with all state that views share. */

import { computed, signal } from '@preact/signals';
import type { ConnectionState } from '../api/channel.ts';
import { keepUnsentOnly } from './conversation.ts';
import { getOwn } from './get-own.ts';
import { type InboxItem, isInboxMissing, listInboxItems } from './inbox.ts';
import { type Conversation, EMPTY_CONVERSATION, EMPTY_STATE, type State } from './types.ts';

/** The data from the hub, with the outgoing messages. */
export const state = signal<State>(EMPTY_STATE);

/** The namespace of the signed-in account; null when signed out. */
export const namespace = signal<string | null>(null);

/** An account of this browser besides the account of the page. */
export interface OtherAccount {
  namespace: string;
  /** How many items wait for the user; 0 until the number is known. */
  waiting: number;
  /** How many messages are sent when the account is opened. */
  unsent: number;
}

export const otherAccounts = signal<OtherAccount[]>([]);

/** How many items wait for the user in the other accounts. */
export const waitingInOtherAccounts = computed(() => otherAccounts.value.reduce((sum, { waiting }) => sum + waiting, 0));

/** Why the user was signed out, for the sign-in page. */
export const signOutReason = signal<string | null>(null);

export const connectionState = signal<ConnectionState>('connecting');

/** Whether the hub is reachable. Otherwise the banner says why the page is not current. */
export const isConnected = computed(() => ['live', 'polling'].includes(connectionState.value));

/** Whether the browser stores drafts and unsent messages. */
export const hasDurableStorage = signal(true);

/** Whether the page is fetching data again after a gap in the events. */
export const isRefetching = signal(false);

/** A fetch that has failed. `sessionId`: of the session to which its resource belongs. */
export interface FailedFetch {
  repeat: () => Promise<void>;
  sessionId: string | undefined;
}

/** The failed fetches of resources that are shown, by resource: what is shown may be out of date. */
export const outdatedResources = signal<ReadonlyMap<string, FailedFetch>>(new Map());

/** Whether the page may show data that is out of date although it is connected. */
export const isCatchingUp = computed(() => isRefetching.value || outdatedResources.value.size > 0);

/** How many bytes of its storage the account uses; without a limit if the hub sets none. */
export const storage = signal({ bytes: 0, maxBytes: Number.POSITIVE_INFINITY });

/** The id of a session that is not in the list, and to which a message could not be sent; undefined if there is none. */
export const unlistedFailureId = computed(() => {
  const { listLoad, summaries: listed, conversations } = state.value;
  if (listLoad.status !== 'ready') return undefined;
  return Object.keys(conversations).find(
    (id) => !getOwn(listed, id) && conversations[id]?.outgoing.some(({ status }) => status === 'failed'),
  );
});

/** Whether the browser has ended the notifications that the user has turned on. */
export const isPushLost = signal(false);

/** Whether the list shows a notice about the storage. */
export const isStorageShort = computed(() => storage.value.bytes >= 0.9 * storage.value.maxBytes);

/** The session that is open; null in all other views. */
export const openSessionId = signal<string | null>(null);

/** Limit on the closed sessions whose loaded messages are kept. */
const MAX_CACHED_CONVERSATIONS = 5;
let recentIds: string[] = [];

/** Sets the open session, and drops the loaded messages of the sessions that were not open recently. */
export function setOpenSession(id: string): void {
  openSessionId.value = id;
  // The page may have received live text of the session before it is opened.
  const isKept = (other: string) => other === id || recentIds.includes(other);
  const remaining = Object.entries(state.value.conversations).map(
    ([other, conversation]) => [other, isKept(other) ? conversation : keepUnsentOnly(conversation)] as const,
  );
  const isEmpty = ({ messages, outgoing, live }: Conversation) => messages.length + outgoing.length + live.length === 0;
  patchState({ conversations: Object.fromEntries(remaining.filter(([, conversation]) => !isEmpty(conversation))) });
  recentIds = [id, ...recentIds.filter((other) => other !== id)].slice(0, MAX_CACHED_CONVERSATIONS);
}

export const summaries = computed(() => state.value.summaries);

/** When the shown list of sessions was stored in this browser; null if the list is from the hub. */
export const listSavedAt = computed(() => state.value.listSavedAt);

/** The machines that are online, by id. */
export const machines = computed(() => state.value.machines);

export const loadStates = {
  list: computed(() => state.value.listLoad),
  /** Ready when the list is loaded, and the inbox is loaded, stored or has failed: a later inbox would appear above the list and move it. */
  listAndInbox: computed(() => {
    const { listLoad, inbox } = state.value;
    return listLoad.status === 'ready' && isInboxMissing(inbox) ? inbox.load : listLoad;
  }),
  archive: computed(() => state.value.archiveLoad),
  machines: computed(() => state.value.machinesLoad),
  config: computed(() => state.value.configLoad),
};

/** Whether the first fetch of the deployment's configuration has ended, with or without success. */
export const isConfigSettled = computed(() => ['ready', 'failed'].includes(state.value.configLoad.status));

/** Whether the page is visible and a person uses it. */
export const isPageInUse = signal(false);

/** The request of the inbox that is expanded; null if none is. */
export const openInboxItem = signal<{ sessionId: string; requestId: string } | null>(null);

/** Everything that waits for a person, oldest first. */
export const inboxItems = computed(() =>
  listInboxItems(state.value.inbox, state.value.summaries, isPageInUse.value ? openSessionId.value : null),
);

const countItems = (items: readonly InboxItem[]) =>
  items.reduce((sum, item) => sum + (item.kind === 'unloaded-requests' ? item.count : 1), 0);

/** The number of items that wait, for badges and the page title. */
export const waitingCount = computed(() => countItems(inboxItems.value));

/** Returns the number of items that wait in other sessions. */
export const waitingInOtherSessions = (id: string) => countItems(inboxItems.value.filter(({ session }) => session.id !== id));

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
