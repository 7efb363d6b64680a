/** Puts the console's parts together: signing in, the calls, the event channel and the store behind them. */

import { Auth, isNamespace, namespaceOf, tokenOfFragment } from './api/auth.ts';
import { Channel, type Missed } from './api/channel.ts';
import { createApi, data } from './api/client.ts';
import { HubError, sentence } from './api/errors.ts';
import { fetchWhole } from './api/fetch.ts';
import { Presence } from './api/presence.ts';
import type { HubEvent } from './api/types.ts';
import { own } from './own.ts';
import { restoreDrafts } from './state/drafts.ts';
import { Outbox } from './state/outbox.ts';
import { connection, isCatchingUp, namespace, openSession, show, signedOutBecause, state } from './state/store.ts';
import { Sync } from './state/sync.ts';
import { ask } from './ui/dialog.tsx';
import { toast, toastError } from './ui/toasts.tsx';
import * as subscription from './subscription.ts';

/** Where the page that is loaded anew finds why its person has to sign in again. */
const WHY_KEY = 'signed-out-because';

export const auth = new Auth({
  storage: localStorage,
  tab: sessionStorage,
  fetch: fetchWhole,
  now: Date.now,
  onSignedOut: (why) => {
    channel.stop();
    presence.stop();
    if (why !== null) sessionStorage.setItem(WHY_KEY, why);
    void beginAnew();
  },
});

/**
 * Loads the page again, for somebody else: nothing that it holds, and nothing that is under way, is left then. Nor does this
 * browser get notifications any more that were meant for who was here.
 */
async function beginAnew(): Promise<void> {
  await subscription.end().catch(() => {});
  location.reload();
}

export const api = createApi(auth);
export const sync = new Sync(api);
export const outbox = new Outbox(api, sessionStorage);

const isVisible = () => document.visibilityState === 'visible';

const presence = new Presence({
  isVisible,
  tell: async (subscriptionId, visibility) => {
    // Who hides the page may be about to leave it.
    await data(api.POST('/api/visibility', { body: { subscriptionId, visibility }, keepalive: visibility === 'hidden' }));
  },
});

const channel = new Channel({
  token: () => auth.token(),
  forgetToken: () => auth.forgetJwt(),
  onEvent,
  onConnected,
  onState: (next) => {
    connection.value = next;
  },
  onRefused: (id) => void letGo(id),
  isOnline: () => navigator.onLine,
  visibility: () => presence.atBeginning(),
  WebSocket,
  EventSource,
  origin: location.origin,
});

function onEvent(event: HubEvent): void {
  if (event.type === 'toast') {
    const { title, body, url, sessionId } = event.data;
    // Who looks at the session sees it there.
    if (sessionId !== openSession.value) toast({ title, text: body, url });
    return;
  }
  // The hub is there: what could not be sent although the channel has not broken gets another try.
  if (event.type === 'heartbeat') void outbox.flush();
  if (event.type === 'session-removed') channel.unfollow(event.sessionId);
  void sync.hear(event);
}

async function onConnected(id: string, missed: Missed): Promise<void> {
  presence.connected(id);
  const sent = outbox.flush();
  const shown = openSession.value;
  if (missed === 'anything') {
    // At the beginning nothing was missed: everything is read for the first time.
    isCatchingUp.value = state.value.list.status === 'ready';
    await sync.everything();
    isCatchingUp.value = false;
    followShown();
  } else if (missed === 'messages' && shown !== null) {
    await sync.newer(shown);
  }
  await sent;
}

/** Stops following a session that the hub says is gone. */
async function letGo(id: string | null): Promise<void> {
  if (id === null) return;
  await sync.session(id);
  if (own(state.value.sessionErrors, id) !== undefined) channel.unfollow(id);
}

/** Shows a session: reads it, and hears its messages from now on. */
export async function open(id: string): Promise<void> {
  show(id);
  void sync.newer(id);
  await sync.session(id);
  followShown();
}

/** Hears the messages of the session on the screen. One that is not there would keep the whole channel from opening. */
function followShown(): void {
  const id = openSession.value;
  if (id !== null && own(state.value.sessions, id) && own(state.value.sessionErrors, id) === undefined) channel.follow(id);
}

/** No session is on the screen any more. */
export function close(id: string): void {
  if (openSession.value === id) openSession.value = null;
}

/**
 * Signs in with an access token, and starts.
 * @throws {HubError} the hub's refusal
 */
export async function signIn(accessToken: string): Promise<void> {
  const { namespace: name } = await auth.signIn(accessToken);
  if (namespace.value === null) start(name);
  else await beginAnew();
}

/** Signs in with a token of the address, or with the one of this browser; without one the sign-in page is shown. */
export async function begin(): Promise<void> {
  signedOutBecause.value = sessionStorage.getItem(WHY_KEY);
  sessionStorage.removeItem(WHY_KEY);
  const kept = auth.resume();
  const given = tokenOfFragment(location.hash);
  if (given !== null && !isNamespace(namespaceOf(given))) {
    // A link's author may write anything there, for a person to read.
    forgetFragment();
    toastError('The link did not sign you in', 'It holds no access token.');
  } else if (given !== null && kept !== null && namespaceOf(given) !== kept.namespace) {
    forgetFragment();
    askToSwitch(given, kept.namespace);
  } else if (given !== null) {
    try {
      await signIn(given);
      forgetFragment();
      return;
    } catch (error) {
      signedOutBecause.value = `The link did not sign you in: ${sentence(error)}`;
      // With a hub that is away, a reload tries the link again.
      if (!(error instanceof HubError && error.isPassing)) forgetFragment();
    }
  }
  // Whether the kept token is still good shows with the first request.
  if (kept !== null) start(kept.namespace);
}

/** Somebody's link is no reason to leave one's own namespace unasked: what is written next would be theirs to read. */
function askToSwitch(accessToken: string, from: string): void {
  const to = namespaceOf(accessToken);
  ask({
    title: `Sign in to “${to}”?`,
    text: `You followed a link that signs in to the namespace “${to}”. This browser is signed in to “${from}”, which it would leave: drafts and messages that were not sent yet would be lost.`,
    action: `Leave “${from}”`,
    isDangerous: true,
    onConfirm: () => signIn(accessToken),
  });
}

/** A token must not stay in what a person copies from the address bar; the browser's own history has kept it already. */
function forgetFragment(): void {
  history.replaceState(history.state, '', location.pathname + location.search);
}

function start(name: string): void {
  signedOutBecause.value = null;
  namespace.value = name;
  outbox.restore();
  restoreDrafts();
  channel.start();
}

// A link that is opened where the console is open already only changes the fragment.
addEventListener('hashchange', () => {
  if (tokenOfFragment(location.hash) !== null) location.reload();
});
// Another tab has signed in or out: this browser's person is one.
addEventListener('storage', () => {
  if (auth.namespace !== namespace.value) void beginAnew();
});
addEventListener('online', () => channel.wake());
addEventListener('offline', () => channel.networkLost());
document.addEventListener('visibilitychange', () => {
  if (isVisible()) channel.wake();
  presence.changed();
});
