/**
 * Keeps the store in sync with the hub: fetches resources, applies events, and fetches a resource again if an event does not contain
 * all the data. The response of a fetch may be older than an event that arrived during the fetch, so the event is applied again.
 */

import type { LoadState } from '../api/load-state.ts';
import { type Api, unwrap } from '../api/client.ts';
import { errorText, HubError } from '../api/errors.ts';
import { INBOX_PAGE_SIZE, PAGE_SIZE } from '../api/first-requests.ts';
import type { HubEvent, SessionSummary } from '../api/types.ts';
import { trimOldest, withHeld, withNewerPage, withNewestPage, withNextPage, withOlderPage } from './conversation.ts';
import { Fetches, type SetTimer } from './fetches.ts';
import { getOwn } from './get-own.ts';
import { mergeRequests, type ReceivedItem, readItems } from './inbox.ts';
import { withoutLiveText, withoutLiveTextOf } from './live-text.ts';
import { withValidMetadata } from './metadata.ts';
import { reduce } from './reduce.ts';
import { isArchived, toSummary } from './sessions.ts';
import { showListedSession } from './stored-conversations.ts';
import { getConversation, openInboxItem, openSessionId, patchState, state, updateConversation } from './store.ts';
import type { Refetch, State } from './types.ts';

/** The hub's limit on the messages of a page. */
export const MAX_PAGE_SIZE = 200;
/** More pages are fetched on demand. */
const MAX_INBOX_PAGES = 3;
/** A live text is dropped when no delta of the text has arrived for this long. The hub has the same timeout. */
const LIVE_TEXT_TIMEOUT_MS = 30_000;

const LOADING: LoadState = { status: 'loading' };
const READY: LoadState = { status: 'ready' };
const failed = (error: unknown): LoadState => ({ status: 'failed', error: errorText(error) });

/**
 * Fetches resources into the store. No method throws: the error of a first fetch is stored as the resource's load state. If a later fetch
 * fails, the page still shows the resource, and the fetch is repeated until it succeeds.
 */
export class Sync {
  #api: Api;
  #fetches: Fetches;

  /** Per session, the last message fetch. Message fetches run one after another, because each continues from the loaded messages. */
  #messageFetches = new Map<string, Promise<void>>();
  /** Per session, the fetch of newer messages that has not started yet. */
  #queuedNewerFetches = new Map<string, Promise<void>>();

  /** For each id of a live text, the timer that removes the text if no delta arrives: the agent may have ended. */
  #liveTimers = new Map<string, ReturnType<typeof setTimeout>>();

  /** How often everything that is shown was fetched again. */
  refetchCount = 0;
  #isFirstRefetch = true;

  /** Resolves when the event stream has started; null after that. Requests wait for it. */
  #streamStart: Promise<void> | null;

  /**
   * @param streamStart resolves when the event stream has started. The first requests wait for the stream, because an earlier response may
   *   lack changes, and would have to be fetched again
   * @param setTimer for the repeated fetches
   */
  constructor(api: Api, streamStart: Promise<void> | null = null, setTimer: SetTimer = (callback, ms) => setTimeout(callback, ms)) {
    this.#api = api;
    this.#fetches = new Fetches(() => this.#streamStart, setTimer);
    this.#streamStart =
      streamStart?.then(() => {
        this.#streamStart = null;
      }) ?? null;
  }

  /** Applies an event, and waits for the fetches that the event makes necessary. */
  async handleEvent(event: HubEvent): Promise<void> {
    const { state: next, refetches } = reduce(state.value, event);
    state.value = next;
    // The session may still be followed although it is closed. The list of an open session trims its messages itself.
    if (event.type === 'message-received' && event.sessionId !== openSessionId.value && getOwn(next.conversations, event.sessionId))
      updateConversation(event.sessionId, trimOldest);
    if (event.type === 'message-delta') this.#restartLiveTimer(event);
    // Message events are not applied again: message fetches detect missed messages by `seq`, and no response contains live text.
    if (event.type !== 'message-received' && event.type !== 'message-delta') this.#fetches.addEvent(event);
    await Promise.all(refetches.map((refetch) => this.#runRefetch(refetch)));
  }

  /** Drops all live text, because the rest of a text may never arrive. The stored messages contain the complete texts. */
  dropLiveText(): void {
    for (const timer of this.#liveTimers.values()) clearTimeout(timer);
    this.#liveTimers.clear();
    patchState({ conversations: withoutLiveText(state.value.conversations) });
  }

  /** Repeats the failed fetches of what the page shows: when the hub seems to be reachable again. */
  repeatOutdated(): Promise<void> {
    return this.#fetches.repeat();
  }

  /** Fetches all shown resources again: after a gap in the events, or after an error. */
  async refetchShown(): Promise<void> {
    this.refetchCount += 1;
    const { archiveLoad, configLoad, machinesLoad } = state.value;
    // When the page connects for the first time, it may already have requested the configuration. The configuration changes only with a
    // deploy, so it is not fetched a second time.
    const hasJustRequestedConfig = this.#isFirstRefetch && configLoad.status !== 'idle';
    this.#isFirstRefetch = false;
    // Other sessions are fetched again when they are opened.
    const openId = openSessionId.value;
    const inboxId = openInboxItem.value?.sessionId;
    await Promise.all([
      ...(hasJustRequestedConfig ? [] : [this.fetchConfig()]),
      this.fetchSessions(),
      this.fetchInbox(),
      ...(archiveLoad.status === 'idle' ? [] : [this.fetchArchive()]),
      ...(machinesLoad.status === 'idle' ? [] : [this.fetchMachines()]),
      ...(inboxId === undefined || inboxId === openId ? [] : [this.fetchSession(inboxId)]),
      ...(openId === null ? [] : [this.fetchSession(openId), this.fetchNewerMessages(openId)]),
    ]);
  }

  /** Fetches the deployment's configuration. */
  fetchConfig(): Promise<void> {
    return this.#fetches.run('config', async () => {
      if (state.value.configLoad.status === 'idle') patchState({ configLoad: LOADING });
      try {
        patchState({ config: await unwrap(this.#api.GET('/api/config')), configLoad: READY });
      } catch (error) {
        const isStored = state.value.config !== null;
        patchState({ configLoad: isStored ? READY : failed(error) });
        if (isStored) throw error;
      }
    });
  }

  /** Fetches the list of sessions that are not archived. */
  fetchSessions(): Promise<void> {
    return this.#fetchList('listLoad', {}, isArchived);
  }

  fetchArchive(): Promise<void> {
    return this.#fetchList('archiveLoad', { archived: 'only' }, (session) => !isArchived(session));
  }

  /** Fetches a list of sessions, page by page. `isInOtherList`: whether a session of the store is not part of this list. */
  #fetchList(
    resource: 'listLoad' | 'archiveLoad',
    filter: { archived?: 'only' },
    isInOtherList: (session: SessionSummary) => boolean,
  ): Promise<void> {
    return this.#fetches.run(resource, async (eventsDuringFetch) => {
      const isFirstFetch = state.value[resource].status !== 'ready';
      if (isFirstFetch) patchState({ [resource]: LOADING });
      const fetched: Record<string, SessionSummary> = {};
      let cursor: string | undefined;
      try {
        do {
          const query = { ...filter, ...(cursor === undefined ? {} : { cursor }) };
          const page = await unwrap(this.#api.GET('/api/sessions', Object.keys(query).length === 0 ? {} : { params: { query } }));
          Object.assign(fetched, byId(page.sessions));
          cursor = page.nextCursor;
          // The first fetch shows each page at once. A list that is already shown (fetched before, or saved by an earlier visit) is
          // replaced only when all pages have arrived.
          if ((isFirstFetch && state.value.listSavedAt === null) || cursor === undefined) {
            const others = Object.entries(state.value.summaries).filter(([, session]) => isInOtherList(session));
            const saved = resource === 'listLoad' ? { listSavedAt: null } : {};
            this.#applyResponse(
              { [resource]: READY, ...saved, summaries: { ...Object.fromEntries(others), ...fetched } },
              eventsDuringFetch,
            );
          }
        } while (cursor !== undefined);
      } catch (error) {
        if (!isFirstFetch) throw error;
        // Show the error of a first fetch: otherwise the pages so far would seem to be the complete list.
        patchState({ [resource]: failed(error) });
      }
    });
  }

  /** Fetches the machines that are online. */
  fetchMachines(): Promise<void> {
    return this.#fetches.run('machines', async (eventsDuringFetch) => {
      if (state.value.machinesLoad.status !== 'ready') patchState({ machinesLoad: LOADING });
      try {
        const { machines } = await unwrap(this.#api.GET('/api/machines'));
        this.#applyResponse({ machinesLoad: READY, machines: byId(machines) }, eventsDuringFetch);
      } catch (error) {
        if (state.value.machinesLoad.status === 'ready') throw error;
        patchState({ machinesLoad: failed(error) });
      }
    });
  }

  /** Fetches the first pages of the inbox. An older hub has no route `/api/inbox`: then the fetch fails, and no requests are loaded. */
  fetchInbox(): Promise<void> {
    return this.#fetches.run('inbox', async (eventsDuringFetch) => {
      if (state.value.inbox.load.status === 'idle') patchState({ inbox: { ...state.value.inbox, load: LOADING } });
      try {
        const { items, nextCursor } = await this.#fetchInboxPages(undefined, MAX_INBOX_PAGES);
        const { outcomes } = state.value.inbox;
        const inbox = { load: READY, outcomes, ...readItems(items), ...(nextCursor === undefined ? {} : { nextCursor }) };
        this.#applyResponse({ inbox }, eventsDuringFetch);
      } catch (error) {
        // A loaded inbox stays. Without a loaded inbox, the list of sessions still shows which sessions wait for the user.
        if (state.value.inbox.load.status === 'ready') throw error;
        patchState({ inbox: { ...state.value.inbox, load: failed(error) } });
      }
    });
  }

  /** Fetches the next page of the inbox. */
  async fetchMoreInbox(): Promise<void> {
    const { nextCursor } = state.value.inbox;
    if (nextCursor === undefined) return;
    const page = await this.#fetchInboxPages(nextCursor, 1).catch(() => null);
    const { nextCursor: current, ...inbox } = state.value.inbox;
    // A new fetch of the first pages has replaced the cursor.
    if (page === null || current !== nextCursor) return;
    const { requests, errors } = readItems(page.items);
    const merged = { ...inbox, requests: mergeRequests(requests, inbox.requests), errors: { ...errors, ...inbox.errors } };
    patchState({ inbox: page.nextCursor === undefined ? merged : { ...merged, nextCursor: page.nextCursor } });
  }

  async #fetchInboxPages(cursor: string | undefined, maxPages: number): Promise<{ items: ReceivedItem[]; nextCursor: string | undefined }> {
    const items: ReceivedItem[] = [];
    let nextCursor = cursor;
    for (let page = 0; page < maxPages && (page === 0 || nextCursor !== undefined); page += 1) {
      const query = { limit: INBOX_PAGE_SIZE, ...(nextCursor === undefined ? {} : { cursor: nextCursor }) };
      const response = await unwrap(this.#api.GET('/api/inbox', { params: { query } }));
      items.push(...response.items);
      nextCursor = response.nextCursor;
    }
    return { items, nextCursor };
  }

  /** Fetches a full session. */
  fetchSession(id: string): Promise<void> {
    const fetchOnce = async (eventsDuringFetch: HubEvent[]) => {
      try {
        const session = withValidMetadata((await unwrap(this.#api.GET('/api/sessions/{id}', { params: { path: { id } } }))).session);
        const { sessions, summaries, sessionErrors, storedSessions } = state.value;
        const { [id]: _error, ...errors } = sessionErrors;
        const { [id]: _stored, ...stored } = storedSessions;
        const changes = {
          sessions: { ...sessions, [id]: session },
          summaries: { ...summaries, [id]: toSummary(session) },
          sessionErrors: errors,
          storedSessions: stored,
        };
        this.#applyResponse(changes, eventsDuringFetch);
        void this.fetchHeldMessages(id);
      } catch (error) {
        const { status, isFromHub } = error instanceof HubError ? error : { status: undefined, isFromHub: false };
        const isGone = isFromHub && (status === 404 || status === 403);
        const isShownOffline = status === 0 && id === openSessionId.value;
        if (isShownOffline) showListedSession(id);
        const isStored = getOwn(state.value.storedSessions, id) !== undefined;
        if (getOwn(state.value.sessions, id) && !isGone && (!isStored || isShownOffline)) throw error;
        patchState({ sessionErrors: { ...state.value.sessionErrors, [id]: { text: errorText(error), isGone } } });
      }
    };
    return this.#fetches.run(`session ${id}`, fetchOnce, id);
  }

  /** Fetches the messages that wait until the session's CLI is back. Needs no request if none waits. */
  fetchHeldMessages(id: string): Promise<void> {
    const fetchOnce = async () => {
      const { heldMessagesCount: count = 0 } = getOwn(state.value.sessions, id) ?? {};
      if (count === 0 && !getOwn(state.value.conversations, id)) return;
      const held = count === 0 ? [] : await this.#fetchHeld(id);
      updateConversation(id, (conversation) => withHeld(conversation, held));
    };
    return this.#fetches.run(`held messages ${id}`, fetchOnce, id);
  }

  async #fetchHeld(id: string) {
    return (await unwrap(this.#api.GET('/api/sessions/{id}/held-messages', { params: { path: { id } } }))).messages;
  }

  /** Fetches the newest page of a session's messages, and replaces the loaded messages. */
  fetchNewestMessages(id: string): Promise<void> {
    return this.serialize(id, () => this.#fetchFirstPage(id));
  }

  /** Fetches the page before the oldest loaded message. */
  fetchOlderMessages(id: string): Promise<void> {
    return this.serialize(id, async () => {
      const { messages, hasOlder } = getConversation(id);
      const oldest = messages[0]?.seq;
      if (oldest === undefined || !hasOlder) return;
      const page = await this.fetchPage(id, { limit: PAGE_SIZE, beforeSeq: oldest }).catch(() => null);
      // After an error, scrolling tries again. If the oldest message has changed during the fetch, the page does not end before it.
      if (page && getConversation(id).messages[0]?.seq === oldest)
        updateConversation(id, (conversation) => withOlderPage(conversation, page.messages, page.hasMore));
    });
  }

  /** Fetches all messages after the newest loaded message, or the newest page if no message is loaded. */
  fetchNewerMessages(id: string): Promise<void> {
    const queuedFetch = this.#queuedNewerFetches.get(id);
    if (queuedFetch) return queuedFetch;
    const queued = this.serialize(id, async () => {
      if (this.#streamStart !== null) await this.#streamStart;
      this.#queuedNewerFetches.delete(id);
      // If the loaded messages end in the middle of the history, scrolling down fetches the next page, so nothing is fetched now.
      if (getConversation(id).hasNewer) return this.#fetches.markCurrent(messagesOf(id));
      if (getConversation(id).loadState.status === 'ready') await this.fetchPagesAfter(id);
      else await this.#fetchFirstPage(id);
    });
    this.#queuedNewerFetches.set(id, queued);
    return queued;
  }

  /** Repeats the first fetch of messages if it has failed. */
  async retryMessages(id: string): Promise<void> {
    if (getConversation(id).loadState.status === 'failed') await this.fetchNewerMessages(id);
  }

  /** Fetches the page after the newest loaded message, if the loaded messages are in the middle of the history. */
  fetchNextMessages(id: string): Promise<void> {
    return this.serialize(id, async () => {
      const { messages, hasNewer } = getConversation(id);
      const newest = messages.at(-1)?.seq;
      if (newest === undefined || !hasNewer) return;
      const page = await this.fetchPage(id, { limit: PAGE_SIZE, afterSeq: newest }).catch(() => null);
      if (!page || getConversation(id).messages.at(-1)?.seq !== newest) return;
      updateConversation(id, (conversation) => withNextPage(conversation, page.messages, page.hasMore));
      // While `hasNewer` was set, events did not add their messages, so messages that arrived during the fetch are still missing.
      if (!page.hasMore) await this.fetchPagesAfter(id);
    });
  }

  async #fetchFirstPage(id: string): Promise<void> {
    updateConversation(id, (conversation) => ({ ...conversation, loadState: LOADING }));
    try {
      const page = await this.fetchPage(id, { limit: PAGE_SIZE });
      updateConversation(id, (conversation) => withNewestPage(conversation, page.messages, page.hasMore));
    } catch (error) {
      updateConversation(id, (conversation) => ({ ...conversation, loadState: failed(error) }));
    }
    this.#fetches.markCurrent(messagesOf(id));
  }

  /** Fetches all messages after the newest loaded message. To be called in {@link serialize}. */
  async fetchPagesAfter(id: string): Promise<void> {
    // The first page starts with the newest loaded message, to detect a renumbered history.
    let overlap = 1;
    let hasMore = true;
    // The store may drop the conversation during the fetch if other sessions are opened.
    while (hasMore && getConversation(id).loadState.status === 'ready') {
      const newest = getConversation(id).messages.at(-1);
      const query = { limit: MAX_PAGE_SIZE, afterSeq: Math.max(0, (newest?.seq ?? 0) - overlap) };
      const page = await this.fetchPage(id, query).catch((error: unknown) => {
        this.#fetches.handleFailure(messagesOf(id), error, () => this.fetchNewerMessages(id), id);
        return null;
      });
      if (!page) return;
      // A merge of two sessions has renumbered the messages.
      if (newest && overlap === 1 && page.messages[0]?.id !== newest.id) return this.#fetchFirstPage(id);
      overlap = 0;
      updateConversation(id, (conversation) => withNewerPage(conversation, page.messages));
      hasMore = page.hasMore && page.messages.length > 0;
    }
    this.#fetches.markCurrent(messagesOf(id));
  }

  /** Fetches a page of a session's messages, without storing it. @throws {HubError} */
  fetchPage(id: string, query: { limit: number; beforeSeq?: number; afterSeq?: number }) {
    return unwrap(this.#api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query: { ...query, excerpts: 'true' } } }));
  }

  #restartLiveTimer({ sessionId, id }: Extract<HubEvent, { type: 'message-delta' }>): void {
    clearTimeout(this.#liveTimers.get(id));
    const dropText = () => {
      this.#liveTimers.delete(id);
      if (getOwn(state.value.conversations, sessionId))
        updateConversation(sessionId, (conversation) => withoutLiveTextOf(conversation, id));
    };
    this.#liveTimers.set(id, setTimeout(dropText, LIVE_TEXT_TIMEOUT_MS));
  }

  #runRefetch(refetch: Refetch): Promise<void> {
    switch (refetch.kind) {
      case 'sessions':
        return this.fetchSessions();
      case 'machines':
        return this.fetchMachines();
      case 'inbox':
        return this.fetchInbox();
      case 'session':
        return this.fetchSession(refetch.id);
      case 'held-messages':
        return this.fetchHeldMessages(refetch.id);
      case 'newer-messages':
        return this.fetchNewerMessages(refetch.id);
      case 'newest-messages':
        return this.fetchNewestMessages(refetch.id);
    }
  }

  /** Runs a message fetch after all earlier message fetches of the same session. */
  serialize(id: string, fetchMessages: () => Promise<void>): Promise<void> {
    const queued = (this.#messageFetches.get(id) ?? Promise.resolve()).then(fetchMessages);
    this.#messageFetches.set(id, queued);
    return queued;
  }

  /** Stores a response, and applies the events again that arrived during the fetch. */
  #applyResponse(response: Partial<State>, eventsDuringFetch: HubEvent[]): void {
    state.value = eventsDuringFetch.reduce((before, event) => reduce(before, event).state, { ...state.value, ...response });
  }
}

/** The name of a session's messages among the resources that are out of date. */
const messagesOf = (id: string) => `messages ${id}`;

function byId<T extends { id: string }>(items: T[]): Record<string, T> {
  return Object.fromEntries(items.map((item) => [item.id, withValidMetadata(item)]));
}
