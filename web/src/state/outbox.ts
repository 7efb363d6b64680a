/**
 * The outbox: shows a message at once and sends it until the hub has stored it. Each message has a `localId` as its idempotency
 * key. The messages of one session are sent in order, one at a time.
 */

import { type Api, unwrap } from '../api/client.ts';
import { errorText, HubError } from '../api/errors.ts';
import { randomId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { withOutgoing, withoutOutgoing } from './conversation.ts';
import { saveItem } from './storage.ts';
import { getConversation, state, updateConversation } from './store.ts';
import type { OutgoingMessage } from './types.ts';

const KEY = 'outbox';

/** The wait before a retry doubles from the minimum to the maximum. */
const MIN_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 30_000;

/** An unsent message as JSON. The names must not change: a tab keeps its messages across a deploy. */
type StoredMessage = Omit<OutgoingMessage, 'status'> & { state: OutgoingMessage['status'] };

const toStored = ({ status, ...message }: OutgoingMessage): StoredMessage => ({ ...message, state: status });

/** Sends messages. Unsent ones survive a reload, as far as the browser's storage quota allows. */
export class Outbox {
  #api: Pick<Api, 'POST'>;
  #storage: Pick<Storage, 'getItem' | 'setItem'>;
  #now: () => number;
  #generateId: () => string;
  /** The drain in flight per session. */
  #drains = new Map<string, Promise<void>>();
  /** The scheduled retry per session that has waiting messages. */
  #retries = new Map<string, { backoff: number; timer: ReturnType<typeof setTimeout> }>();

  constructor(api: Pick<Api, 'POST'>, storage: Pick<Storage, 'getItem' | 'setItem'>, now = Date.now, generateId = randomId) {
    this.#api = api;
    this.#storage = storage;
    this.#now = now;
    this.#generateId = generateId;
  }

  /** Sends a message after all earlier ones of the session. Resolves once it is sent, has failed, or waits for a retry. */
  send(sessionId: string, text: string, attachments: Attachment[]): Promise<void> {
    return this.#enqueue(sessionId, { localId: this.#generateId(), text, attachments, createdAt: this.#now(), status: 'sending' });
  }

  /** Sends a failed or waiting message again. The hub stores a `localId` only once. */
  retry(sessionId: string, { error: _, ...outgoing }: OutgoingMessage): Promise<void> {
    return this.#enqueue(sessionId, { ...outgoing, createdAt: this.#now(), status: 'sending' });
  }

  discard(sessionId: string, localId: string): void {
    updateConversation(sessionId, (conversation) => withoutOutgoing(conversation, localId));
    this.#save();
  }

  /** Restores the messages that were unsent before a reload. The next {@link flush} sends them. */
  restore(): void {
    const stored = JSON.parse(this.#storage.getItem(KEY) ?? '{}') as Record<string, StoredMessage[]>;
    for (const [id, outgoing] of Object.entries(stored)) {
      // A message that the hub rejected is not sent again by itself.
      for (const { state: status, ...message } of outgoing) this.#updateMessage(id, { ...message, status: status === 'failed' ? status : 'waiting' });
    }
  }

  #save(): void {
    const unsent = Object.entries(state.value.conversations).map(([id, { outgoing }]) => [id, outgoing.filter((message) => message.status !== 'sent').map(toStored)] as const);
    saveItem(this.#storage, KEY, JSON.stringify(Object.fromEntries(unsent.filter(([, outgoing]) => outgoing.length > 0))));
  }

  /** Sends all waiting messages. */
  async flush(): Promise<void> {
    const waiting = Object.entries(state.value.conversations).filter(([, { outgoing }]) => outgoing.some(({ status }) => status === 'waiting'));
    await Promise.all(waiting.map(([id]) => this.#drain(id)));
  }

  #enqueue(id: string, outgoing: OutgoingMessage): Promise<void> {
    this.#updateMessage(id, outgoing);
    return this.#drain(id);
  }

  /** Sends the messages of a session in order, up to the first transient error. */
  #drain(id: string): Promise<void> {
    let running = this.#drains.get(id);
    if (!running) this.#drains.set(id, (running = this.#drainQueue(id)));
    return running;
  }

  async #drainQueue(id: string): Promise<void> {
    const unsent = () => getConversation(id).outgoing.filter(({ status }) => status === 'sending' || status === 'waiting');
    for (let [next] = unsent(); next; [next] = unsent()) {
      await this.#post(id, next);
      if (unsent()[0]?.localId !== next.localId) continue;
      // This message has to wait, and so do the later ones.
      for (const message of unsent()) this.#updateMessage(id, { ...message, status: 'waiting' });
      break;
    }
    this.#drains.delete(id);
    this.#scheduleRetry(id, unsent().length > 0);
  }

  /** Schedules a retry if messages are waiting. An overloaded hub (429, 503) does not announce when it has recovered. */
  #scheduleRetry(id: string, isWaiting: boolean): void {
    const previous = this.#retries.get(id);
    clearTimeout(previous?.timer);
    this.#retries.delete(id);
    if (!isWaiting) return;
    const backoff = previous ? Math.min(2 * previous.backoff, MAX_BACKOFF_MS) : MIN_BACKOFF_MS;
    this.#retries.set(id, { backoff, timer: setTimeout(() => void this.#drain(id), backoff) });
  }

  async #post(id: string, outgoing: OutgoingMessage): Promise<void> {
    const { error: _, ...message } = outgoing;
    this.#updateMessage(id, { ...message, status: 'sending' });
    const { localId, text, attachments } = message;
    const body = { localId, ...(text === '' ? {} : { text }), ...(attachments.length === 0 ? {} : { attachments }) };
    try {
      const { message: stored } = await unwrap(this.#api.POST('/api/sessions/{id}/messages', { params: { path: { id } }, body }));
      // The hub had stored it before, among older messages that are not loaded, so no event will confirm it.
      if (stored.seq < (getConversation(id).messages[0]?.seq ?? 0)) this.discard(id, localId);
      else this.#updateMessage(id, { ...message, status: 'sent' });
    } catch (error) {
      const isTransient = error instanceof HubError && error.isTransient;
      this.#updateMessage(id, { ...message, status: isTransient ? 'waiting' : 'failed', error: errorText(error) });
    }
  }

  #updateMessage(id: string, outgoing: OutgoingMessage): void {
    updateConversation(id, (conversation) => withOutgoing(conversation, outgoing));
    this.#save();
  }
}
