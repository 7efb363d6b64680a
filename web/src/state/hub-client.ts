/**
 * The client of the hub: creates the authentication, the REST calls, the event channel, the outbox and the sync. Connects these parts to
 * each other, to the browser and to the store. All other modules import these instances.
 */

import { effect } from '@preact/signals';
import { Auth, type AuthEnvironment } from '../api/auth.ts';
import { Channel, type Gap } from '../api/channel.ts';
import { createApi, unwrap } from '../api/client.ts';
import { fetchBuffered } from '../api/fetch-buffered.ts';
import { sessionIdIn } from '../api/first-requests.ts';
import { randomId } from '../api/ids.ts';
import { Presence } from '../api/presence.ts';
import { deleteSubscription } from '../api/push-subscription.ts';
import type { HubEvent } from '../api/types.ts';
import { hubAddress, pagePath, pathPrefix } from '../content/hub-address.ts';
import type { NotificationDetails } from '../content/notification-text.ts';
import { showToast } from '../ui/toasts.tsx';
import { watchInput } from '../ui/watch-input.ts';
import { accounts } from './account.ts';
import { type Database, deleteRecords, openDatabase } from './database.ts';
import { deleteDraftsOfDeleted, flushDrafts, handleDraftFromTab, restoreDrafts } from './drafts.ts';
import { hasEarlyResponse, isNetworkSlow, SIGN_IN_TIMEOUT_MS, takeEarlyResponse } from './early-requests.ts';
import { getOwn } from './get-own.ts';
import { Outbox } from './outbox.ts';
import { restoreReading, saveReading } from './reading.ts';
import { SeenReports } from './seen.ts';
import { deleteConversation, deleteUnlistedConversations, saveConversation, showStoredConversation } from './stored-conversations.ts';
import { saveList, showStoredList } from './stored-list.ts';
import { delay, waitForStream } from './start-wait.ts';
import {
  connectionState,
  hasDurableStorage,
  isPageInUse,
  isRefetching,
  namespace,
  openSessionId,
  setOpenSession,
  state,
  storage,
} from './store.ts';
import { Sync } from './sync.ts';
import { createTabLocks } from './tab-lock.ts';
import { joinTabs, postToTabs } from './tabs.ts';

/** The session storage key that carries the reason of a sign-out across the reload. */
export const SIGN_OUT_REASON_KEY = 'signed-out-because';

/** The limit on the wait for the stored messages of a session that is opened. */
const MAX_STORED_WAIT_MS = 200;

export const authEnvironment: Omit<AuthEnvironment, 'onSignedOut'> = {
  accounts,
  tabStorage: sessionStorage,
  fetch: (input, init) => takeEarlyResponse(input, init.body) ?? fetchBuffered(`.${input}`, init, SIGN_IN_TIMEOUT_MS),
  now: Date.now,
};

/** The authentication of this tab's account. */
export const auth = new Auth({
  ...authEnvironment,
  onSignedOut: (name, reason) => {
    channel.stop();
    presence.stop();
    if (reason === null) {
      void leaveAccount(name);
      return;
    }
    sessionStorage.setItem(SIGN_OUT_REASON_KEY, accounts.all().length === 0 ? reason : `${name}: ${reason}`);
    // The hub refused the account, and may still have the account's push subscription. The next account creates a new subscription.
    void deleteSubscription()
      .catch(() => {})
      .then(() => leaveAccount(name));
  },
});

/** Whether the page is being reloaded because its account was signed out. */
export let isResetting = false;

/**
 * Reloads the page after its account was signed out, so that no data and no pending request of the account remains. The page then
 * opens the next account, if there is one, or the sign-in page.
 */
async function leaveAccount(name: string): Promise<void> {
  if (isResetting) return;
  isResetting = true;
  // Another tab may have signed in to the account again.
  if (accounts.get(name) === null) await deleteRecords(name).catch(() => {});
  if (accounts.all().length === 0) location.reload();
  else location.replace('.');
}

/** Opens another account of this browser in this tab: loads the page again, so that no data of the current account remains in it. */
export function switchAccount(name: string, page: string | URL = '.'): void {
  const url = new URL(page, document.baseURI);
  url.searchParams.set('account', name);
  location.assign(url);
}

let onDatabaseOpened: (database: Database) => void;
/** The stored data of the signed-in namespace. */
const database = new Promise<Database>((resolve) => {
  onDatabaseOpened = resolve;
});

export const api = createApi(auth, (path) => takeEarlyResponse(path, auth.namespace));
/** Ends the wait of the first requests for the event stream. */
let endStart = () => {};
export const sync = new Sync(
  api,
  new Promise((resolve) => {
    endStart = resolve;
  }),
);
const tryWithLock = createTabLocks(database);
export const outbox = new Outbox({
  api,
  database,
  tryWithLock: (name, operation) => tryWithLock(`${pathPrefix()}${auth.namespace} ${name}`, operation),
  postToTabs,
});

const isVisible = () => document.visibilityState === 'visible';

const presence = new Presence({
  isVisible,
  report: async (subscriptionId, visibility) => {
    isPageInUse.value = visibility === 'visible';
    // A page that gets hidden may be about to close. With `keepalive`, the request outlives the page.
    await unwrap(api.POST('/api/visibility', { body: { subscriptionId, visibility }, keepalive: visibility === 'hidden' }));
  },
  onSubscriptionGone: () => channel.reconnect(),
});

const tabId = randomId();

const channel = new Channel({
  getValidJwt: () => auth.getValidJwt(),
  invalidateJwt: () => auth.invalidateJwt(),
  onEvent,
  onConnected,
  onState: (next) => {
    connectionState.value = next;
    if (next !== 'live') sync.dropLiveText();
  },
  onConnectFailed: (sessionId) => {
    endStart();
    void unfollowIfDeleted(sessionId);
  },
  // Browsers do not report why a connect has failed, but the response to this request signs a revoked device out.
  onTokenRefused: () => void api.GET('/api/devices').catch(() => {}),
  onPoll: () => {
    endStart();
    void outbox.sendWaiting();
    void sync.refetchShown();
  },
  onStream: (isOpen) => postToTabs({ type: 'stream', id: tabId, isOpen }),
  isOnline: () => navigator.onLine,
  isVisible,
  browserId: () => auth.browserId,
  prepareSubscription: () => {
    const visibility = presence.prepareSubscription();
    isPageInUse.value = visibility === 'visible';
    return visibility;
  },
  WebSocket,
  EventSource,
  hub: hubAddress(),
});

type ToastData = Extract<HubEvent, { type: 'toast' }>['data'];

/** Shows a toast with the text of the notification, unless its session is open. */
async function showNotification(data: ToastData): Promise<void> {
  const { notificationText } = await import('../content/notification-text.ts');
  const { title, body } = notificationText(data as NotificationDetails, data);
  showToast({ title, text: body, url: data.url });
}

function onEvent(event: HubEvent): void {
  if (event.type === 'toast') {
    presence.handleToast();
    void showNotification(event.data);
    return;
  }
  if (event.type === 'storage-changed') storage.value = event.data;
  // A heartbeat shows that the hub is reachable, so retry requests that failed while the channel stayed open.
  if (event.type === 'heartbeat') {
    void outbox.sendWaiting();
    void sync.repeatOutdated();
  }
  if (event.type === 'session-removed') {
    channel.unfollow(event.sessionId);
    void deleteConversation(database, event.sessionId);
  }
  void sync.handleEvent(event);
}

let wasConnected = false;

async function onConnected(subscriptionId: string, gap: Gap): Promise<void> {
  endStart();
  presence.handleConnected(subscriptionId);
  // When the channel reconnects to follow another session, its state stays `live`, and `onState` is not called.
  sync.dropLiveText();
  const sending = outbox.sendWaiting();
  const sessionId = openSessionId.value;
  if (gap === 'all') {
    // On the first connection, the page has just fetched what it shows.
    isRefetching.value = wasConnected;
    wasConnected = true;
    await sync.refetchShown();
    isRefetching.value = false;
    void saveList(database).then((isSaved) => (isSaved ? deleteStoredOfDeleted() : undefined));
    followOpenSession();
    if (openSessionId.value !== null) void saveConversation(database, openSessionId.value);
  } else {
    await Promise.all([sync.repeatOutdated(), sessionId === null ? null : sync.retryMessages(sessionId)]);
  }
  await sending;
}

async function unfollowIfDeleted(sessionId: string | null): Promise<void> {
  if (sessionId !== null && (await isDeleted(sessionId))) channel.unfollow(sessionId);
}

async function isDeleted(sessionId: string): Promise<boolean> {
  await sync.fetchSession(sessionId);
  return getOwn(state.value.sessionErrors, sessionId)?.isGone === true;
}

/** Deletes what the browser has stored about sessions that were deleted. Must be called when the list is current. */
function deleteStoredOfDeleted(): void {
  void deleteUnlistedConversations(database);
  void deleteDraftsOfDeleted(async (id) => !getOwn(state.value.summaries, id) && isDeleted(id));
}

/** The session whose data the page has requested before its code had arrived, until the session is opened. */
let idRequestedEarly: string | null = null;

/** Opens a session: fetches the session and the deployment's configuration, and subscribes to the session's messages. */
export async function openSession(id: string): Promise<void> {
  setOpenSession(id);
  const { refetchCount } = sync;
  // A database that does not answer must not delay the requests.
  await Promise.race([showStoredConversation(database, id), delay(MAX_STORED_WAIT_MS)]);
  if (openSessionId.value !== id) return;
  // The data is fetched again when the event stream starts.
  const isRequested = idRequestedEarly === id && !wasConnected;
  idRequestedEarly = null;
  if (isRequested) return;
  // The event stream has started meanwhile. The session was fetched then, or its response will follow.
  if (sync.refetchCount !== refetchCount) return followOpenSession();
  if (state.value.configLoad.status === 'idle') void sync.fetchConfig();
  // The messages are read after the channel follows the session, so that none is missed.
  if (getOwn(state.value.summaries, id)) channel.follow(id);
  const fetchingSession = sync.fetchSession(id);
  if (channel.isFollowing(id)) void loadNewerMessages(id, fetchingSession);
  await fetchingSession;
  followOpenSession();
}

/** Stores what the page shows. */
function saveShown(): void {
  void saveList(database);
  if (openSessionId.value !== null) void saveConversation(database, openSessionId.value);
}

/** Follows the open session once the session is loaded: the hub rejects a connection that follows an unknown session. */
function followOpenSession(): void {
  const id = openSessionId.value;
  if (id === null || !getOwn(state.value.sessions, id) || getOwn(state.value.sessionErrors, id) || channel.isFollowing(id)) return;
  channel.follow(id);
  void loadNewerMessages(id);
}

/** `fetchingSession`: the session is stored with its messages, so both must have arrived. */
async function loadNewerMessages(id: string, fetchingSession?: Promise<void>): Promise<void> {
  await Promise.all([sync.fetchNewerMessages(id), fetchingSession]);
  await saveConversation(database, id);
}

/** Closes a session. Does nothing if another session is open. */
export function closeSession(id: string): void {
  void saveConversation(database, id);
  if (openSessionId.value === id) openSessionId.value = null;
}

/** Starts the console for a signed-in namespace. Resolves when the stored data is restored. */
export async function connect(name: string): Promise<void> {
  namespace.value = name;
  const opening = openDatabase(name);
  const openedId = sessionIdIn(pagePath());
  if (openedId !== undefined) channel.follow(openedId);
  if (openedId !== undefined && hasEarlyResponse('/api/config', name)) {
    // Before the event stream can start: an early response may lack changes, and is fetched again after the start.
    endStart();
    idRequestedEarly = openedId;
    void sync.fetchConfig();
    void loadNewerMessages(openedId, sync.fetchSession(openedId));
  }
  channel.start();
  const isStoredShown = () => (openedId === undefined ? state.value.listSavedAt !== null : openedId in state.value.storedSessions);
  const restored = restore(opening, name, openedId);
  void waitForStream(auth.getValidJwt(), isNetworkSlow, restored, isStoredShown).then(endStart, endStart);
  // The list may not wait for the event stream. The requests of a session come before those of the list.
  if (openedId === undefined) {
    void sync.fetchSessions();
    void sync.fetchInbox();
  }
  joinTabs(name, (message) => {
    if (message.type === 'draft') handleDraftFromTab(message.id, message.value);
    else if (message.type === 'stream') channel.handleOtherStream(message.id, message.isOpen);
    else void outbox.handleTabMessage(message);
  });
  await restored;
}

/** Shows the stored data. `openedId`: of the session that the page shows. */
async function restore(opening: ReturnType<typeof openDatabase>, name: string, openedId: string | undefined): Promise<void> {
  const opened = await opening;
  hasDurableStorage.value = opened.isDurable;
  onDatabaseOpened(opened);
  await Promise.all([
    restoreDrafts(database, name),
    restoreReading(database),
    outbox.readStored(),
    showStoredList(database),
    ...(openedId === undefined ? [] : [showStoredConversation(database, openedId)]),
  ]);
}

const seen = new SeenReports((id, at) => markSeen(id, at));
effect(() => seen.update(isPageInUse.value ? openSessionId.value : null, state.value.summaries));

/** Reports to the hub that the user has seen a session. `at`: since when the session waited to be seen. */
export async function markSeen(id: string, at: number): Promise<void> {
  await unwrap(api.POST('/api/sessions/{id}/seen', { params: { path: { id } }, body: { at } }));
}

/** Leaves the account if another tab has signed out of it. Leaves the sign-in page if another tab has signed in. */
function followOtherTabs(): void {
  if (auth.namespace !== null && !auth.isSignedIn) void leaveAccount(auth.namespace);
  else if (namespace.value === null && accounts.all().length > 0) location.reload();
}

/** Stores the drafts, unless the account was signed out: then nothing of it may remain. */
function flushDraftsOfAccount(): void {
  if (auth.isSignedIn) void flushDrafts();
}

addEventListener('storage', followOtherTabs);
watchInput(window, () => presence.handleInput());
addEventListener('offline', () => channel.handleOffline());
// Before each of these events, the connection may have been lost silently: the device slept or changed its network, or the page was
// frozen or in the back/forward cache.
addEventListener('online', () => channel.probe());
// The window may have left its stream to other windows.
addEventListener('focus', () => connectionState.value === 'polling' && channel.probe());
addEventListener('pageshow', (event) => {
  if (!(event as PageTransitionEvent).persisted) return;
  followOtherTabs();
  // `pagehide` has ended the reports for the subscription.
  channel.reconnect();
});
addEventListener('pagehide', () => {
  // The subscription ends with the page, so the report of `visibilitychange`, which follows, would arrive too late.
  presence.stop();
  flushDraftsOfAccount();
});
document.addEventListener('resume', () => channel.probe());
document.addEventListener('visibilitychange', () => {
  if (isVisible()) channel.probe();
  else {
    channel.handleHidden();
    saveShown();
    saveReading();
    // A phone may end the app without a further event.
    flushDraftsOfAccount();
  }
  presence.handleVisibilityChange();
});
