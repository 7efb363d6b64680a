/**
 * The client of the hub: creates the authentication, the REST calls, the event channel, the outbox and the sync. Connects these parts to
 * each other, to the browser and to the store. All other modules import these instances.
 */

import { Auth } from '../api/auth.ts';
import { Channel, type Gap } from '../api/channel.ts';
import { createApi, unwrap } from '../api/client.ts';
import { fetchBuffered } from '../api/fetch-buffered.ts';
import { Presence } from '../api/presence.ts';
import { deleteSubscription } from '../api/push-subscription.ts';
import type { HubEvent } from '../api/types.ts';
import { showToast } from '../ui/toasts.tsx';
import { watchInput } from '../ui/watch-input.ts';
import { type Database, deleteRecords, openDatabase } from './database.ts';
import { handleDraftFromTab, restoreDrafts } from './drafts.ts';
import { getOwn } from './get-own.ts';
import { Outbox } from './outbox.ts';
import { saveList, showStoredList } from './stored-list.ts';
import { connectionState, hasDurableStorage, isCatchingUp, namespace, openSessionId, setOpenSession, state } from './store.ts';
import { Sync } from './sync.ts';
import { createTabLocks } from './tab-lock.ts';
import { importTabStorage } from './tab-storage.ts';
import { joinTabs, postToTabs } from './tabs.ts';

/** The session storage key that carries the reason of a sign-out across the reload. */
export const SIGN_OUT_REASON_KEY = 'signed-out-because';

/** Short, because the hub answers a sign-in at once, and the event channel cannot connect before the answer. */
const SIGN_IN_TIMEOUT_MS = 15_000;

export const auth = new Auth({
  storage: localStorage,
  tabStorage: sessionStorage,
  fetch: (input, init) => fetchBuffered(input, init, SIGN_IN_TIMEOUT_MS),
  now: Date.now,
  onSignedOut: (reason) => {
    channel.stop();
    presence.stop();
    if (reason !== null) sessionStorage.setItem(SIGN_OUT_REASON_KEY, reason);
    void resetPage();
  },
});

/** Whether the page is being reloaded for another account. */
export let isResetting = false;

/**
 * Reloads the page for another account, so that no data and no pending request of the previous account remains. Also deletes the
 * push subscription.
 */
export async function resetPage(): Promise<void> {
  isResetting = true;
  await Promise.allSettled([deleteSubscription(), deleteRecords(auth.namespace)]);
  location.reload();
}

let onDatabaseOpened: (database: Database) => void;
/** The stored data of the signed-in namespace. */
const database = new Promise<Database>((resolve) => {
  onDatabaseOpened = resolve;
});

export const api = createApi(auth);
export const sync = new Sync(api);
export const outbox = new Outbox({ api, database, tryWithLock: createTabLocks(database), postToTabs });

const isVisible = () => document.visibilityState === 'visible';

const presence = new Presence({
  isVisible,
  report: async (subscriptionId, visibility) => {
    // A page that gets hidden may be about to close. With `keepalive`, the request outlives the page.
    await unwrap(api.POST('/api/visibility', { body: { subscriptionId, visibility }, keepalive: visibility === 'hidden' }));
  },
  onSubscriptionGone: () => channel.reconnect(),
});

const channel = new Channel({
  getValidJwt: () => auth.getValidJwt(),
  invalidateJwt: () => auth.invalidateJwt(),
  onEvent,
  onConnected,
  onState: (next) => {
    connectionState.value = next;
    if (next !== 'live') sync.dropLiveText();
    if (next === 'offline' || next === 'reconnecting') void showStoredList(database);
  },
  onConnectFailed: (sessionId) => void unfollowIfDeleted(sessionId),
  // Browsers do not report why a connect has failed, but the response to this request signs a revoked device out.
  onTokenRefused: () => void api.GET('/api/devices').catch(() => {}),
  isOnline: () => navigator.onLine,
  deviceId: () => auth.ensureDeviceId(),
  prepareSubscription: () => presence.prepareSubscription(),
  WebSocket,
  EventSource,
  origin: location.origin,
});

function onEvent(event: HubEvent): void {
  if (event.type === 'toast') {
    presence.handleToast();
    const { title, body, url, sessionId } = event.data;
    // The view of the open session already shows what the toast says.
    if (sessionId !== openSessionId.value) showToast({ title, text: body, url });
    return;
  }
  // A heartbeat shows that the hub is reachable, so retry requests that failed while the channel stayed open.
  if (event.type === 'heartbeat') void outbox.sendWaiting();
  if (event.type === 'session-removed') channel.unfollow(event.sessionId);
  void sync.handleEvent(event);
}

async function onConnected(subscriptionId: string, gap: Gap): Promise<void> {
  presence.handleConnected(subscriptionId);
  // When the channel reconnects to follow another session, its state stays `live`, and `onState` is not called.
  sync.dropLiveText();
  const sending = outbox.sendWaiting();
  const sessionId = openSessionId.value;
  if (gap === 'all') {
    // On the first connection, no list is shown yet, so that nothing is out of date.
    isCatchingUp.value = state.value.listLoad.status === 'ready';
    await sync.refetchShown();
    isCatchingUp.value = false;
    void saveList(database);
    followOpenSession();
  } else if (gap === 'messages' && sessionId !== null) {
    await sync.fetchNewerMessages(sessionId);
  }
  await sending;
}

async function unfollowIfDeleted(sessionId: string | null): Promise<void> {
  if (sessionId === null) return;
  await sync.fetchSession(sessionId);
  if (getOwn(state.value.sessionErrors, sessionId) !== undefined) channel.unfollow(sessionId);
}

/** Opens a session: fetches the session and the deployment's configuration, and subscribes to the session's messages. */
export async function openSession(id: string): Promise<void> {
  setOpenSession(id);
  if (state.value.configLoad.status === 'idle') void sync.fetchConfig();
  void sync.fetchNewerMessages(id);
  await sync.fetchSession(id);
  followOpenSession();
}

/** Follows the open session once the session is loaded: the hub rejects a connection that follows an unknown session. */
function followOpenSession(): void {
  const id = openSessionId.value;
  if (id !== null && getOwn(state.value.sessions, id) && getOwn(state.value.sessionErrors, id) === undefined) channel.follow(id);
}

/** Closes a session. Does nothing if another session is open. */
export function closeSession(id: string): void {
  if (openSessionId.value === id) openSessionId.value = null;
}

/** Starts the console for a signed-in namespace. Resolves when the stored data is restored. */
export async function connect(name: string): Promise<void> {
  namespace.value = name;
  channel.start();
  joinTabs(name, (message) => {
    if (message.type === 'draft') handleDraftFromTab(message.id, message.value);
    else void outbox.handleTabMessage(message);
  });
  const opened = await openDatabase(name);
  hasDurableStorage.value = opened.isDurable;
  await importTabStorage(opened);
  onDatabaseOpened(opened);
  await Promise.all([restoreDrafts(database), outbox.readStored()]);
}

// Another tab has signed in or out.
addEventListener('storage', () => {
  if (auth.namespace !== namespace.value) void resetPage();
});
watchInput(window, () => presence.handleInput());
addEventListener('offline', () => channel.handleOffline());
// Before each of these events, the connection may have been lost silently: the device slept or changed its network, or the page was
// frozen or in the back/forward cache.
addEventListener('online', () => channel.probe());
addEventListener('pageshow', (event) => {
  if ((event as PageTransitionEvent).persisted) channel.probe();
});
document.addEventListener('resume', () => channel.probe());
document.addEventListener('visibilitychange', () => {
  if (isVisible()) channel.probe();
  else void saveList(database);
  presence.handleVisibilityChange();
});
