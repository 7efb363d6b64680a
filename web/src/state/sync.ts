/** Reads from the hub what the console shows, and what events say has to be read again. */

import { type Api, data } from '../api/client.ts';
import { HubError, sentence } from '../api/errors.ts';
import { withNewerPage, withNewestPage, withOlderPage } from './conversation.ts';
import { isArchived, summaryOf } from './sessions.ts';
import { changeConversation, conversationOf, openSession, patch, state } from './store.ts';
import type { Need, Reading } from './types.ts';

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
  /** Per thing, the reading that is under way: one at a time. */
  #running = new Map<string, Promise<void>>();
  /** Things that were asked for while they were being read. */
  #again = new Set<string>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Reads what events asked for. */
  async meet(needs: Need[]): Promise<void> {
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
    return this.#once('list', async () => {
      if (state.value.list.status !== 'ready') patch({ list: READING });
      try {
        const { sessions } = await data(this.#api.GET('/api/sessions'));
        const archived = Object.values(state.value.summaries).filter(isArchived);
        patch({ list: READY, summaries: byId([...archived, ...sessions]) });
      } catch (error) {
        if (state.value.list.status !== 'ready') patch({ list: failed(error) });
      }
    });
  }

  /** The archived sessions. */
  archive(): Promise<void> {
    return this.#once('archive', async () => {
      if (state.value.archive.status !== 'ready') patch({ archive: READING });
      try {
        const { sessions } = await data(this.#api.GET('/api/sessions', { params: { query: { archived: 'only' } } }));
        const others = Object.values(state.value.summaries).filter((one) => !isArchived(one));
        patch({ archive: READY, summaries: byId([...others, ...sessions]) });
      } catch (error) {
        if (state.value.archive.status !== 'ready') patch({ archive: failed(error) });
      }
    });
  }

  /** The machines that are online. */
  machines(): Promise<void> {
    return this.#once('machines', async () => {
      if (state.value.machinesRead.status !== 'ready') patch({ machinesRead: READING });
      try {
        const { machines } = await data(this.#api.GET('/api/machines'));
        patch({ machinesRead: READY, machines: byId(machines) });
      } catch (error) {
        if (state.value.machinesRead.status !== 'ready') patch({ machinesRead: failed(error) });
      }
    });
  }

  /** One session, whole. */
  session(id: string): Promise<void> {
    return this.#once(`session ${id}`, async () => {
      try {
        const { session } = await data(this.#api.GET('/api/sessions/{id}', { params: { path: { id } } }));
        const { sessions, summaries, sessionErrors } = state.value;
        const { [id]: _, ...errors } = sessionErrors;
        patch({
          sessions: { ...sessions, [id]: session },
          summaries: { ...summaries, [id]: summaryOf(session) },
          sessionErrors: errors,
        });
      } catch (error) {
        const isKnown = state.value.sessions[id] !== undefined;
        const isGone = error instanceof HubError && (error.status === 404 || error.status === 403);
        if (!isKnown || isGone) patch({ sessionErrors: { ...state.value.sessionErrors, [id]: sentence(error) } });
      }
    });
  }

  /** The newest messages of a session, as its first page. */
  conversation(id: string): Promise<void> {
    return this.#once(`messages ${id}`, async () => {
      changeConversation(id, (one) => ({ ...one, reading: READING }));
      try {
        const page = await data(this.#api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query: { limit: PAGE } } }));
        changeConversation(id, (one) => withNewestPage(one, page.messages, page.hasMore));
      } catch (error) {
        changeConversation(id, (one) => ({ ...one, reading: failed(error) }));
      }
    });
  }

  /** The page before the oldest message that is here. */
  older(id: string): Promise<void> {
    return this.#once(`messages ${id}`, async () => {
      const oldest = conversationOf(id).messages[0]?.seq;
      if (oldest === undefined || !conversationOf(id).hasOlder) return;
      const query = { limit: PAGE, beforeSeq: oldest };
      const page = await data(this.#api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query } })).catch(() => null);
      // Scrolling on asks again.
      if (page) changeConversation(id, (one) => withOlderPage(one, page.messages, page.hasMore));
    });
  }

  /** Everything after the newest message that is here. */
  async newer(id: string): Promise<void> {
    await this.#running.get(`messages ${id}`);
    if (conversationOf(id).reading.status !== 'ready') return this.conversation(id);
    return this.#once(`messages ${id}`, async () => {
      let hasMore = true;
      while (hasMore) {
        const query = { limit: LARGEST_PAGE, afterSeq: conversationOf(id).messages.at(-1)?.seq ?? 0 };
        const page = await data(this.#api.GET('/api/sessions/{id}/messages', { params: { path: { id }, query } })).catch(() => null);
        // The channel is going to end as well, and its next beginning asks again.
        if (!page) return;
        changeConversation(id, (one) => withNewerPage(one, page.messages));
        hasMore = page.hasMore && page.messages.length > 0;
      }
    });
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

  /** Runs one reading of a thing at a time; one that is asked for meanwhile is done once more afterwards. */
  async #once(thing: string, read: () => Promise<void>): Promise<void> {
    const running = this.#running.get(thing);
    if (running) {
      if (this.#again.has(thing)) return running;
      this.#again.add(thing);
      await running;
      this.#again.delete(thing);
      return this.#once(thing, read);
    }
    const mine = read().finally(() => this.#running.delete(thing));
    this.#running.set(thing, mine);
    return mine;
  }
}

function byId<T extends { id: string }>(all: T[]): Record<string, T> {
  return Object.fromEntries(all.map((one) => [one.id, one]));
}
