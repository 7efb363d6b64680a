/** Messages on their way to the hub: shown at once, sent under an id of their own, and sent again until they are there. */

import { type Api, data } from '../api/client.ts';
import { HubError, sentence } from '../api/errors.ts';
import { newId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { withOutgoing, withoutOutgoing } from './conversation.ts';
import { changeConversation, conversationOf, state } from './store.ts';
import type { Outgoing } from './types.ts';

const KEY = 'outbox';

/** Sends messages. What is not sent yet survives a reload of the page. */
export class Outbox {
  #api: Pick<Api, 'POST'>;
  #shelf: Pick<Storage, 'getItem' | 'setItem'>;
  #now: () => number;
  #newId: () => string;

  constructor(api: Pick<Api, 'POST'>, shelf: Pick<Storage, 'getItem' | 'setItem'>, now = Date.now, makeId = newId) {
    this.#api = api;
    this.#shelf = shelf;
    this.#now = now;
    this.#newId = makeId;
  }

  /** Sends a message to a session. Settled when it is there, or is known not to be. */
  send(sessionId: string, text: string, attachments: Attachment[]): Promise<void> {
    return this.#attempt(sessionId, { localId: this.#newId(), text, attachments, createdAt: this.#now(), state: 'sending' });
  }

  /** Sends one again that did not get through. The hub stores a `localId` once, however often it comes. */
  retry(sessionId: string, outgoing: Outgoing): Promise<void> {
    return this.#attempt(sessionId, { ...outgoing, createdAt: this.#now() });
  }

  /** Gives one up. */
  discard(sessionId: string, localId: string): void {
    changeConversation(sessionId, (one) => withoutOutgoing(one, localId));
    this.#keep();
  }

  /** Takes up what the page had not sent when it was left. It goes out with the next {@link flush}. */
  restore(): void {
    const kept = JSON.parse(this.#shelf.getItem(KEY) ?? '{}') as Record<string, Outgoing[]>;
    for (const [id, outgoing] of Object.entries(kept)) {
      for (const one of outgoing) changeConversation(id, (conversation) => withOutgoing(conversation, { ...one, state: 'waiting' }));
    }
  }

  #keep(): void {
    const unsent = Object.entries(state.value.conversations).map(([id, { outgoing }]) => [id, outgoing.filter((one) => one.state !== 'sent')] as const);
    this.#shelf.setItem(KEY, JSON.stringify(Object.fromEntries(unsent.filter(([, outgoing]) => outgoing.length > 0))));
  }

  /** Sends everything that waits for the hub to be reachable, in the order in which it was written. */
  async flush(): Promise<void> {
    const sessions = Object.entries(state.value.conversations);
    await Promise.all(
      sessions.map(async ([id, { outgoing }]) => {
        for (const one of outgoing.filter(({ state }) => state === 'waiting')) await this.#attempt(id, one);
      }),
    );
  }

  async #attempt(id: string, outgoing: Outgoing): Promise<void> {
    const { error: _, ...message } = outgoing;
    const show = (change: Pick<Outgoing, 'state' | 'error'>) => {
      changeConversation(id, (one) => withOutgoing(one, { ...message, ...change }));
      this.#keep();
    };
    show({ state: 'sending' });
    const { localId, text, attachments } = message;
    const body = { localId, ...(text === '' ? {} : { text }), ...(attachments.length === 0 ? {} : { attachments }) };
    try {
      const { message: stored } = await data(this.#api.POST('/api/sessions/{id}/messages', { params: { path: { id } }, body }));
      // It was there before, further up than what is loaded: nothing will tell of it any more.
      if (stored.seq < (conversationOf(id).messages[0]?.seq ?? 0)) this.discard(id, localId);
      else show({ state: 'sent' });
    } catch (error) {
      const isWaiting = error instanceof HubError && error.status === 0;
      show({ state: isWaiting ? 'waiting' : 'failed', error: sentence(error) });
    }
  }
}
