/**
 * Keeps the store in sync with the hub: fetches resources, applies events, and fetches a resource again if an event does not contain
 * all the data. The response of a fetch may be older than an event that arrived during the fetch, so the event is applied again.
 */

import type { LoadState } from '../api/load-state.ts';
import { type Api, unwrap } from '../api/client.ts';
import { errorText, HubError } from '../api/errors.ts';
import type { HubEvent, SessionSummary } from '../api/types.ts';
import { withNewerPage, withNewestPage, withOlderPage } from './conversation.ts';
import { getOwn } from './get-own.ts';
import { withoutLiveText, withoutLiveTextOf } from './live-text.ts';
import { withValidMetadata } from './metadata.ts';
import { reduce } from './reduce.ts';
import { isArchived, toSummary } from './sessions.ts';
import { getConversation, openSessionId, patchState, state, updateConversation } from './store.ts';
import type { Refetch, State } from './types.ts';

/** Messages for about two screens. */
const PAGE_SIZE = 60;
/** The hub's limit on the messages of a page. */
const CATCH_UP_PAGE_SIZE = 200;
/** A live text is dropped when no delta of the text has arrived for this long. The hub has the same timeout. */
const LIVE_TEXT_TIMEOUT_MS = 30_000;

const LOADING: LoadState = { status: 'loading' };
const READY: LoadState = { status: 'ready' };
const failed = (error: unknown): LoadState => ({ status: 'failed', error: errorText(error) });

/** Fetches resources into the store. No method throws: an error is stored as the resource's load state. */
export class Sync {
  #api: Api;
  /** The fetch in flight per resource, with the events that arrived since the start of the fetch. */
  #fetches = new Map<string, { done: Promise<void>; eventsDuringFetch: HubEvent[] }>();
  /** The resources that were requested again during their fetch. */
  #requestedAgain = new Set<string>();

  /** Per session, the last message fetch. Message fetches run one after another, because each continues from the loaded messages. */
  #messageFetches = new Map<string, Promise<void>>();
  /** Per session, the fetch of newer messages that has not started yet. */
  #queuedNewerFetches = new Map<string, Promise<void>>();

  /** For each id of a live text, the timer that removes the text if no delta arrives: the agent may have ended. */
  #liveTimers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Applies an event, and waits for the fetches that the event makes necessary. */
  async handleEvent(event: HubEvent): Promise<void> {
    const { state: next, refetches } = reduce(state.value, event);
    state.value = next;
    if (event.type === 'message-delta') this.#restartLiveTimer(event);
    // Message events are not applied again: message fetches detect missed messages by `seq`, and no response contains live text.
    if (event.type !== 'message-received' && event.type !== 'message-delta')
      for (const { eventsDuringFetch } of this.#fetches.values()) eventsDuringFetch.push(event);
    await Promise.all(refetches.map((refetch) => this.#runRefetch(refetch)));
  }

  /** Drops all live text, because the rest of a text may never arrive. The stored messages contain the complete texts. */
  dropLiveText(): void {
    for (const timer of this.#liveTimers.values()) clearTimeout(timer);
    this.#liveTimers.clear();
    patchState({ conversations: withoutLiveText(state.value.conversations) });
  }

  /** Fetches all shown resources again, after a gap in the events. */
  async refetchShown(): Promise<void> {
    const { archiveLoad, machinesLoad } = state.value;
    // Other sessions are fetched again when they are opened.
    const openId = openSessionId.value;
    await Promise.all([
      this.fetchConfig(),
      this.fetchSessions(),
      ...(archiveLoad.status === 'idle' ? [] : [this.fetchArchive()]),
      ...(machinesLoad.status === 'idle' ? [] : [this.fetchMachines()]),
      ...(openId === null ? [] : [this.fetchSession(openId), this.fetchNewerMessages(openId)]),
    ]);
  }

  /** Fetches the deployment's configuration. */
  fetchConfig(): Promise<void> {
    return this.#coalesce('config', async () => {
      if (state.value.config === null) patchState({ configLoad: LOADING });
      try {
        patchState({ config: await unwrap(this.#api.GET('/api/config')), configLoad: READY });
      } catch (error) {
        if (state.value.config === null) patchState({ configLoad: failed(error) });
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

  /** Fetches a list of sessions, page by page. `isOther`: whether a session belongs to the other list. */
  #fetchList(
    resource: 'listLoad' | 'archiveLoad',
    filter: { archived?: 'only' },
    isOther: (session: SessionSummary) => boolean,
  ): Promise<void> {
    return this.#coalesce(resource, async (eventsDuringFetch) => {
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
          // The first fetch shows each page at once. A list that is already shown, also a stored list, is replaced by a complete list.
          if ((isFirstFetch && state.value.listSavedAt === null) || cursor === undefined) {
            const others = Object.entries(state.value.summaries).filter(([, session]) => isOther(session));
            const saved = resource === 'listLoad' ? { listSavedAt: null } : {};
            this.#applyResponse(
              { [resource]: READY, ...saved, summaries: { ...Object.fromEntries(others), ...fetched } },
              eventsDuringFetch,
            );
          }
        } while (cursor !== undefined);
      } catch (error) {
        // Show the error of a first fetch: otherwise the pages so far would seem to be the complete list.
        if (isFirstFetch) patchState({ [resource]: failed(error) });
      }
    });
  }

  /** Fetches the machines that are online. */
  fetchMachines(): Promise<void> {
    return this.#coalesce('machines', async (eventsDuringFetch) => {
      if (state.value.machinesLoad.status !== 'ready') patchState({ machinesLoad: LOADING });
      try {
        const { machines } = await unwrap(this.#api.GET('/api/machines'));
        this.#applyResponse({ machinesLoad: READY, machines: byId(machines) }, eventsDuringFetch);
      } catch (error) {
        if (state.value.machinesLoad.status !== 'ready') patchState({ machinesLoad: failed(error) });
      }
    });
  }

  /** Fetches a full session. */
  fetchSession(id: string): Promise<void> {
    return this.#coalesce(`session ${id}`, async (eventsDuringFetch) => {
      try {
        const session = withValidMetadata((await unwrap(this.#api.GET('/api/sessions/{id}', { params: { path: { id } } }))).session);
        const { sessions, summaries, sessionErrors } = state.value;
        const { [id]: _, ...errors } = sessionErrors;
        const changes = {
          sessions: { ...sessions, [id]: session },
          summaries: { ...summaries, [id]: toSummary(session) },
          sessionErrors: errors,
        };
        this.#applyResponse(changes, eventsDuringFetch);
      } catch (error) {
        const isKnown = getOwn(state.value.sessions, id) !== undefined;
        const isGone = error instanceof HubError && (error.status === 404 || error.status === 403);
        if (!isKnown || isGone) patchState({ sessionErrors: { ...state.value.sessionErrors, [id]: { text: errorText(error), isGone } } });
      }
    });
  }

  /** Fetches the newest page of a session's messages, and replaces the loaded messages. */
  fetchNewestMessages(id: string): Promise<void> {
    return this.#serialize(id, () => this.#fetchFirstPage(id));
  }

  /** Fetches the page before the oldest loaded message. */
  fetchOlderMessages(id: string): Promise<void> {
    return this.#serialize(id, async () => {
      const { messages, hasOlder } = getConversation(id);
      const oldest = messages[0]?.seq;
      if (oldest === undefined || !hasOlder) return;
      const page = await this.#fetchPage(id, { limit: PAGE_SIZE, beforeSeq: oldest }).catch(() => null);
      // After an error, scrolling tries again. If the oldest message has changed during the fetch, the page no longer fits.
      if (page && getConversation(id).messages[0]?.seq === oldest)
        updateConversation(id, (conversation) => withOlderPage(conversation, page.messages, page.hasMore));
    });
  }

  /** Fetches all messages after the newest loaded message, or the newest page if no message is loaded. */
  fetchNewerMessages(id: string): Promise<void> {
    const queuedFetch = this.#queuedNewerFetches.get(id);
    if (queuedFetch) return queuedFetch;
    const queued = this.#serialize(id, async () => {
      this.#queuedNewerFetches.delete(id);
      if (getConversation(id).loadState.status === 'ready') await this.#fetchPagesAfter(id);
      else await this.#fetchFirstPage(id);
    });
    this.#queuedNewerFetches.set(id, queued);
    return queued;
  }

  async #fetchFirstPage(id: string): Promise<void> {
    updateConversation(id, (conversation) => ({ ...conversation, loadState: LOADING }));
    try {
      const page = await this.#fetchPage(id, { limit: PAGE_SIZE });
      updateConversation(id, (conversation) => withNewestPage(conversation, page.messages, page.hasMore));
    } catch (error) {
      updateConversation(id, (conversation) => ({ ...conversation, loadState: failed(error) }));
    }
  }

  async #fetchPagesAfter(id: string): Promise<void> {
    // The first page starts with the newest loaded message, to detect a renumbered history.
    let overlap = 1;
    let hasMore = true;
    // The store may drop the conversation during the fetch if other sessions are opened.
    while (hasMore && getConversation(id).loadState.status === 'ready') {
      const newest = getConversation(id).messages.at(-1);
      const query = { limit: CATCH_UP_PAGE_SIZE, afterSeq: Math.max(0, (newest?.seq ?? 0) - overlap) };
      const page = await this.#fetchPage(id, query).catch(() => null);
      // The event channel will fail as well, and its reconnect fetches the messages again.
      if (!page) return;
      // A merge of two sessions has renumbered the messages.
      if (newest && overlap === 1 && page.messages[0]?.id !== newest.id) return this.#fetchFirstPage(id);
      overlap = 0;
      updateConversation(id, (conversation) => withNewerPage(conversation, page.messages));
      hasMore = page.hasMore && page.messages.length > 0;
    }
  }

  #fetchPage(id: string, query: { limit: number; beforeSeq?: number; afterSeq?: number }) {
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
      case 'session':
        return this.fetchSession(refetch.id);
      case 'newer-messages':
        return this.fetchNewerMessages(refetch.id);
      case 'messages':
        return this.fetchNewestMessages(refetch.id);
    }
  }

  /** Runs a message fetch after all earlier message fetches of the same session. */
  #serialize(id: string, fetchMessages: () => Promise<void>): Promise<void> {
    const queued = (this.#messageFetches.get(id) ?? Promise.resolve()).then(fetchMessages);
    this.#messageFetches.set(id, queued);
    return queued;
  }

  /** Runs only one fetch per resource at a time. All calls during a fetch share one further fetch, which runs after the first. */
  #coalesce(resource: string, fetchOnce: (eventsDuringFetch: HubEvent[]) => Promise<void>): Promise<void> {
    const active = this.#fetches.get(resource);
    if (active) {
      this.#requestedAgain.add(resource);
      return active.done;
    }
    const eventsDuringFetch: HubEvent[] = [];
    const done = (async () => {
      do {
        this.#requestedAgain.delete(resource);
        eventsDuringFetch.length = 0;
        await fetchOnce(eventsDuringFetch);
      } while (this.#requestedAgain.has(resource));
    })().finally(() => this.#fetches.delete(resource));
    this.#fetches.set(resource, { done, eventsDuringFetch });
    return done;
  }

  /** Stores a response, and applies the events again that arrived during the fetch. */
  #applyResponse(response: Partial<State>, eventsDuringFetch: HubEvent[]): void {
    state.value = eventsDuringFetch.reduce((before, event) => reduce(before, event).state, { ...state.value, ...response });
  }
}

function byId<T extends { id: string }>(items: T[]): Record<string, T> {
  return Object.fromEntries(items.map((item) => [item.id, withValidMetadata(item)]));
}
