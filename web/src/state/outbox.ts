/** Messages on their way to the hub: shown at once, sent under an id of their own, and sent again until they are there. */

import { type Api, data } from '../api/client.ts';
import { HubError, sentence } from '../api/errors.ts';
import { newId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { withOutgoing, withoutOutgoing } from './conversation.ts';
import { keep } from './shelf.ts';
import { changeConversation, conversationOf, state } from './store.ts';
import type { Outgoing } from './types.ts';

const KEY = 'outbox';

/** The wait before what could not go out is tried again, in milliseconds; it doubles up to the longest. */
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;

/** Sends messages. What is not sent yet survives a reload of the page, as far as the browser has room for it. */
export class Outbox {
  #api: Pick<Api, 'POST'>;
  #shelf: Pick<Storage, 'getItem' | 'setItem'>;
  #now: () => number;
  #newId: () => string;
  /** Per session, the sending that is under way: one at a time, so that nothing overtakes. */
  #draining = new Map<string, Promise<void>>();
  /** Per session in which something waits, the next try. */
  #retries = new Map<string, { wait: number; timer: ReturnType<typeof setTimeout> }>();

  constructor(api: Pick<Api, 'POST'>, shelf: Pick<Storage, 'getItem' | 'setItem'>, now = Date.now, makeId = newId) {
    this.#api = api;
    this.#shelf = shelf;
    this.#now = now;
    this.#newId = makeId;
  }

  /** Sends a message to a session, after those that were written before it. Settled when nothing more can be done for now. */
  send(sessionId: string, text: string, attachments: Attachment[]): Promise<void> {
    return this.#enqueue(sessionId, { localId: this.#newId(), text, attachments, createdAt: this.#now(), state: 'sending' });
  }

  /** Sends one again that did not get through. The hub stores a `localId` once, however often it comes. */
  retry(sessionId: string, { error: _, ...outgoing }: Outgoing): Promise<void> {
    return this.#enqueue(sessionId, { ...outgoing, createdAt: this.#now(), state: 'sending' });
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
      // What the hub has refused is for a person to decide, now as before.
      for (const one of outgoing) this.#show(id, one.state === 'failed' ? one : { ...one, state: 'waiting' });
    }
  }

  #keep(): void {
    const unsent = Object.entries(state.value.conversations).map(([id, { outgoing }]) => [id, outgoing.filter((one) => one.state !== 'sent')] as const);
    keep(this.#shelf, KEY, JSON.stringify(Object.fromEntries(unsent.filter(([, outgoing]) => outgoing.length > 0))));
  }

  /** Sends everything that waits for the hub, in each session in the order in which it was written. */
  async flush(): Promise<void> {
    const waiting = Object.entries(state.value.conversations).filter(([, { outgoing }]) => outgoing.some(({ state }) => state === 'waiting'));
    await Promise.all(waiting.map(([id]) => this.#drain(id)));
  }

  #enqueue(id: string, outgoing: Outgoing): Promise<void> {
    this.#show(id, outgoing);
    return this.#drain(id);
  }

  /** Sends the messages of a session one after another, up to the first that the hub cannot take now. */
  #drain(id: string): Promise<void> {
    let running = this.#draining.get(id);
    if (!running) this.#draining.set(id, (running = this.#sendAll(id)));
    return running;
  }

  async #sendAll(id: string): Promise<void> {
    const unsent = () => conversationOf(id).outgoing.filter(({ state }) => state === 'sending' || state === 'waiting');
    for (let [next] = unsent(); next; [next] = unsent()) {
      await this.#attempt(id, next);
      if (unsent()[0]?.localId !== next.localId) continue;
      // It still waits, and so does what was written after it.
      for (const one of unsent()) this.#show(id, { ...one, state: 'waiting' });
      break;
    }
    this.#draining.delete(id);
    this.#retryLater(id, unsent().length > 0);
  }

  /** Tries again by itself when something waits: a hub that is there and has no time tells nobody when it has. */
  #retryLater(id: string, isWaiting: boolean): void {
    const before = this.#retries.get(id);
    clearTimeout(before?.timer);
    this.#retries.delete(id);
    if (!isWaiting) return;
    const wait = before ? Math.min(2 * before.wait, LONGEST_WAIT_MS) : FIRST_WAIT_MS;
    this.#retries.set(id, { wait, timer: setTimeout(() => void this.#drain(id), wait) });
  }

  async #attempt(id: string, outgoing: Outgoing): Promise<void> {
    const { error: _, ...message } = outgoing;
    this.#show(id, { ...message, state: 'sending' });
    const { localId, text, attachments } = message;
    const body = { localId, ...(text === '' ? {} : { text }), ...(attachments.length === 0 ? {} : { attachments }) };
    try {
      const { message: stored } = await data(this.#api.POST('/api/sessions/{id}/messages', { params: { path: { id } }, body }));
      // It was there before, further up than what is loaded: nothing will tell of it any more.
      if (stored.seq < (conversationOf(id).messages[0]?.seq ?? 0)) this.discard(id, localId);
      else this.#show(id, { ...message, state: 'sent' });
    } catch (error) {
      const isWaiting = error instanceof HubError && error.isPassing;
      this.#show(id, { ...message, state: isWaiting ? 'waiting' : 'failed', error: sentence(error) });
    }
  }

  #show(id: string, outgoing: Outgoing): void {
    changeConversation(id, (one) => withOutgoing(one, outgoing));
    this.#keep();
  }
}
