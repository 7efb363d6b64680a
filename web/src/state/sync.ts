/** Reads from the hub what the console shows, and what events say has to be read again. */

import { type Api, data } from '../api/client.ts';
import { HubError, sentence } from '../api/errors.ts';
import type { HubEvent } from '../api/types.ts';
import { withNewerPage, withNewestPage, withOlderPage } from './conversation.ts';
import { described } from './metadata.ts';
import { reduce } from './reduce.ts';
import { isArchived, summaryOf } from './sessions.ts';
import { changeConversation, conversationOf, openSession, patch, state } from './store.ts';
import type { Need, Reading, State } from './types.ts';

/** Messages of a page: enough for two screens. */
const PAGE = 60;
/** Messages of a page when catching up. */
const LARGEST_PAGE = 200;

const READING: Reading = { status: 'reading' };
const READY: Reading = { status: 'ready' };
const failed = (error: unknown): Reading => ({ status: 'failed', error: sentence(error) });

/** Reads things from the hub into the store. Nothing here throws: what failed is in the store, with its reason. */
export class Sync {
  #api: Api;
  /** Per thing, the reading that is under way, one at a time, and the events that were heard meanwhile. */
  #running = new Map<string, { done: Promise<void>; heard: HubEvent[] }>();
  /** Things that were asked for while they were being read. */
  #again = new Set<string>();

  /** Per session, the last of the readings of its messages: each begins where the one before it ended. */
  #turns = new Map<string, Promise<void>>();
  /** Per session, the reading of newer messages that waits for its turn. */
  #waiting = new Map<string, Promise<void>>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Applies an event, and reads what has to be read because of it. */
  async hear(event: HubEvent): Promise<void> {
    const { state: next, needs } = reduce(state.value, event);
    state.value = next;
    // Messages are read in turns of their own.
    if (event.type !== 'message-received') for (const { heard } of this.#running.values()) heard.push(event);
    await Promise.all(needs.map((need) => this.#meet(need)));
  }

  /** Reads everything again that is shown, after a gap in the events. */
  async everything(): Promise<void> {
    const { archive, machinesRead } = state.value;
    // Other sessions that were opened are read again when they are opened again.
    const shown = openSession.value;
    await Promise.all([
      this.list(),
      ...(archive.status === 'none' ? [] : [this.archive()]),
      ...(machinesRead.status === 'none' ? [] : [this.machines()]),
      ...(shown === null ? [] : [this.session(shown), this.newer(shown)]),
    ]);
  }

  /** The sessions that are not archived. */
  list(): Promise<void> {
    return this.#once('list', async (heard) => {
      if (state.value.list.status !== 'ready') patch({ list: READING });
      try {
        const { sessions } = await data(this.#api.GET('/api/sessions'));
        const { summaries } = state.value;
        this.#take({ list: READY, summaries: byId([...Object.values(summaries).filter(isArchived), ...sessions]) }, heard);
      } catch (error) {
        if (state.value.list.status !== 'ready') patch({ list: failed(error) });
      }
    });
  }

  /** The archived sessions. */
  archive(): Promise<void> {
    return this.#once('archive', async (heard) => {
      if (state.value.archive.status !== 'ready') patch({ archive: READING });
      try {
        const { sessions } = await data(this.#api.GET('/api/sessions', { params: { query: { archived: 'only' } } }));
        const others = Object.values(state.value.summaries).filter((one) => !isArchived(one));
        this.#take({ archive: READY, summaries: byId([...others, ...sessions]) }, heard);
      } catch (error) {
        if (state.value.archive.status !== 'ready') patch({ archive: failed(error) });
      }
    });
  }

  /** The machines that are online. */
  machines(): Promise<void> {
    return this.#once('machines', async (heard) => {
      if (state.value.machinesRead.status !== 'ready') patch({ machinesRead: READING });
      try {
        const { machines } = await data(this.#api.GET('/api/machines'));
        this.#take({ machinesRead: READY, machines: byId(machines) }, heard);
      } catch (error) {
        if (state.value.machinesRead.status !== 'ready') patch({ machinesRead: failed(error) });
      }
    });
  }

  /** One session, whole. */
  session(id: string): Promise<void> {
    return this.#once(`session ${id}`, async (heard) => {
      try {
        const session = described((await data(this.#api.GET('/api/sessions/{id}', { params: { path: { id } } }))).session);
        const { sessions, summaries, sessionErrors } = state.value;
        const { [id]: _, ...errors } = sessionErrors;
        const changes = { sessions: { ...sessions, [id]: session }, summaries: { ...summaries, [id]: summaryOf(session) }, sessionErrors: errors };
        this.#take(changes, heard);
      } catch (error) {
        const isKnown = state.value.sessions[id] !== undefined;
        const isGone = error instanceof HubError && (error.status === 404 || error.status === 403);
        if (!isKnown || isGone) patch({ sessionErrors: { ...state.value.sessionErrors, [id]: { text: sentence(error), isGone } } });
      }
    });
  }

  /** The newest messages of a session, as its first page. */
  conversation(id: string): Promise<void> {
    return this.#inTurn(id, () => this.#firstPage(id));
  }

  /** The page before the oldest message that is here. */
  older(id: string): Promise<void> {
    return this.#inTurn(id, async () => {
      const { messages, hasOlder } = conversationOf(id);
      const oldest = messages[0]?.seq;
      if (oldest === undefined || !hasOlder) return;
      const page = await this.#page(id, { limit: PAGE, beforeSeq: oldest }).catch(() => null);
      // Scrolling on asks again. Where the page would join on may have gone meanwhile.
      if (page && conversationOf(id).messages[0]?.seq === oldest) changeConversation(id, (one) => withOlderPage(one, page.messages, page.hasMore));
    });
  }

  /** Everything after the newest message that is here; the first page, when none is. */
  newer(id: string): Promise<void> {
    const waiting = this.#waiting.get(id);
    if (waiting) return waiting;
    const mine = this.#inTurn(id, async () => {
      this.#waiting.delete(id);
      if (conversationOf(id).reading.status === 'ready') await this.#pagesAfter(id);
      else await this.#firstPage(id);
    });
    this.#waiting.set(id, mine);
    return mine;
  }

  async #firstPage(id: string): Promise<void> {
    changeConversation(id, (one) => ({ ...one, reading: READING }));
    try {
      const page = await this.#page(id, { limit: PAGE });
      changeConversation(id, (one) => withNewestPage(one, page.messages, page.hasMore));
    } catch (error) {
      changeConversation(id, (one) => ({ ...one, reading: failed(error) }));
    }
  }

  async #pagesAfter(id: string): Promise<void> {
    // The first page begins with the newest message that is here: it shows whether the history is still the same.
    let overlap = 1;
    let hasMore = true;
    // Of a session that left the screen long ago nothing is here any more.
    while (hasMore && conversationOf(id).reading.status === 'ready') {
      const newest = conversationOf(id).messages.at(-1);
      const query = { limit: LARGEST_PAGE, afterSeq: Math.max(0, (newest?.seq ?? 0) - overlap) };
      const page = await this.#page(id, query).catch(() => null);
      // The channel is going to end as well, and its next beginning asks again.
      if (!page) return;
      // Two sessions were merged, and messages numbered anew.
      if (newest && overlap === 1 && page.messages[0]?.id !== newest.id) return this.#firstPage(id);
      overlap = 0;
      changeConversation(id, (one) => withNewerPage(one, page.messages));
      hasMore = page.hasMore && page.messages.length > 0;
    }
  }

  #page(id: string, query: { limit: number; beforeSeq?: number; afterSeq?: number }) {
    return data(this.#api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query } }));
  }

  #meet(need: Need): Promise<void> {
    switch (need.kind) {
      case 'list':
        return this.list();
      case 'machines':
        return this.machines();
      case 'session':
        return this.session(need.id);
      case 'newer':
        return this.newer(need.id);
      case 'conversation':
        return this.conversation(need.id);
    }
  }

  #inTurn(id: string, read: () => Promise<void>): Promise<void> {
    const mine = (this.#turns.get(id) ?? Promise.resolve()).then(read);
    this.#turns.set(id, mine);
    return mine;
  }

  /** Runs one reading of a thing at a time; one that is asked for meanwhile is done once more afterwards. */
  #once(thing: string, read: (heard: HubEvent[]) => Promise<void>): Promise<void> {
    const running = this.#running.get(thing);
    if (running) {
      this.#again.add(thing);
      return running.done;
    }
    const heard: HubEvent[] = [];
    const done = (async () => {
      do {
        this.#again.delete(thing);
        heard.length = 0;
        await read(heard);
      } while (this.#again.has(thing));
    })().finally(() => this.#running.delete(thing));
    this.#running.set(thing, { done, heard });
    return done;
  }

  /**
   * Takes an answer in, and applies to it what events told while it was on its way: it may be from before them. When it is
   * not, what came after them is told by later events.
   */
  #take(answer: Partial<State>, heard: HubEvent[]): void {
    state.value = heard.reduce((before, event) => reduce(before, event).state, { ...state.value, ...answer });
  }
}

function byId<T extends { id: string }>(all: T[]): Record<string, T> {
  return Object.fromEntries(all.map((one) => [one.id, described(one)]));
}
