/**
 * The outbox: shows a new message immediately and sends it. After a transient error it sends the message again, until the hub
 * has stored or rejected it. The `localId` of a message is its idempotency key. The messages of one session are sent in order,
 * one at a time.
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

/** A message in the storage. The names must not change: a tab keeps its messages across a deploy. */
type StoredMessage = Omit<OutgoingMessage, 'status'> & { state: OutgoingMessage['status'] };

const toStored = ({ status, ...message }: OutgoingMessage): StoredMessage => ({ ...message, state: status });

/** Returns the messages of a session that are not sent yet, oldest first, without the rejected ones. */
const pendingMessages = (sessionId: string) => getConversation(sessionId).outgoing.filter(({ status }) => status === 'sending' || status === 'waiting');

/** Sends messages. Unsent ones survive a reload, as far as the browser's storage quota allows. */
export class Outbox {
  #api: Pick<Api, 'POST'>;
  #storage: Pick<Storage, 'getItem' | 'setItem'>;
  #now: () => number;
  #generateId: () => string;
  /** The running {@link #sendInOrder} of each session: at most one, so that messages stay in order. */
  #sending = new Map<string, Promise<void>>();
  /** The scheduled retry of each session with waiting messages. */
  #retries = new Map<string, { backoff: number; timer: ReturnType<typeof setTimeout> }>();

  constructor(api: Pick<Api, 'POST'>, storage: Pick<Storage, 'getItem' | 'setItem'>, now = Date.now, generateId = randomId) {
    this.#api = api;
    this.#storage = storage;
    this.#now = now;
    this.#generateId = generateId;
  }

  /**
   * Sends a message after all earlier ones of the session.
   * Resolves when all messages of the session are sent, or wait for a retry.
   */
  send(sessionId: string, text: string, attachments: Attachment[]): Promise<void> {
    return this.#enqueue(sessionId, { localId: this.#generateId(), text, attachments, createdAt: this.#now(), status: 'sending' });
  }

  /** Sends a failed or waiting message again. The hub stores a `localId` only once. */
  retry(sessionId: string, { error: _, ...message }: OutgoingMessage): Promise<void> {
    return this.#enqueue(sessionId, { ...message, createdAt: this.#now(), status: 'sending' });
  }

  discard(sessionId: string, localId: string): void {
    updateConversation(sessionId, (conversation) => withoutOutgoing(conversation, localId));
    this.#save();
  }

  /** Restores the messages that were unsent before a reload. The next {@link sendWaiting} sends them. */
  restore(): void {
    const stored = JSON.parse(this.#storage.getItem(KEY) ?? '{}') as Record<string, StoredMessage[]>;
    for (const [sessionId, messages] of Object.entries(stored)) {
      for (const { state: status, ...message } of messages) {
        // Only the user can retry a message that the hub rejected.
        this.#putMessage(sessionId, { ...message, status: status === 'failed' ? 'failed' : 'waiting' });
      }
    }
  }

  #save(): void {
    const stored = Object.entries(state.value.conversations).map(
      ([sessionId, { outgoing }]) => [sessionId, outgoing.filter(({ status }) => status !== 'sent').map(toStored)] as const,
    );
    saveItem(this.#storage, KEY, JSON.stringify(Object.fromEntries(stored.filter(([, messages]) => messages.length > 0))));
  }

  /** Sends the waiting messages of all sessions. */
  async sendWaiting(): Promise<void> {
    const waiting = Object.entries(state.value.conversations).filter(([, { outgoing }]) => outgoing.some(({ status }) => status === 'waiting'));
    await Promise.all(waiting.map(([sessionId]) => this.#startSending(sessionId)));
  }

  #enqueue(sessionId: string, message: OutgoingMessage): Promise<void> {
    this.#putMessage(sessionId, message);
    return this.#startSending(sessionId);
  }

  /** Starts to send the pending messages of a session, unless this runs already. */
  #startSending(sessionId: string): Promise<void> {
    let sending = this.#sending.get(sessionId);
    if (!sending) this.#sending.set(sessionId, (sending = this.#sendInOrder(sessionId)));
    return sending;
  }

  /** Sends the pending messages of a session in order, up to the first transient error. */
  async #sendInOrder(sessionId: string): Promise<void> {
    for (let [next] = pendingMessages(sessionId); next; [next] = pendingMessages(sessionId)) {
      await this.#post(sessionId, next);
      const pending = pendingMessages(sessionId);
      // The message was stored, rejected, or discarded meanwhile.
      if (pending[0]?.localId !== next.localId) continue;
      // After a transient error, later messages wait too, because the order must not change.
      for (const message of pending) this.#putMessage(sessionId, { ...message, status: 'waiting' });
      break;
    }
    this.#sending.delete(sessionId);
    this.#scheduleRetry(sessionId, pendingMessages(sessionId).length > 0);
  }

  /** Schedules a retry if messages are waiting; otherwise resets the backoff. */
  #scheduleRetry(sessionId: string, isWaiting: boolean): void {
    const previous = this.#retries.get(sessionId);
    clearTimeout(previous?.timer);
    this.#retries.delete(sessionId);
    if (!isWaiting) return;
    const backoff = previous ? Math.min(2 * previous.backoff, MAX_BACKOFF_MS) : MIN_BACKOFF_MS;
    // A timer, because an overloaded hub (429, 503) sends no event when it has recovered.
    this.#retries.set(sessionId, { backoff, timer: setTimeout(() => void this.#startSending(sessionId), backoff) });
  }

  async #post(sessionId: string, { error: _, ...message }: OutgoingMessage): Promise<void> {
    this.#putMessage(sessionId, { ...message, status: 'sending' });
    const { localId, text, attachments } = message;
    const body = { localId, ...(text === '' ? {} : { text }), ...(attachments.length === 0 ? {} : { attachments }) };
    try {
      const { message: stored } = await unwrap(this.#api.POST('/api/sessions/{id}/messages', { params: { path: { id: sessionId } }, body }));
      // An earlier attempt had stored it, among older messages that are not loaded, so no event will confirm it.
      if (stored.seq < (getConversation(sessionId).messages[0]?.seq ?? 0)) this.discard(sessionId, localId);
      else this.#putMessage(sessionId, { ...message, status: 'sent' });
    } catch (error) {
      const isTransient = error instanceof HubError && error.isTransient;
      this.#putMessage(sessionId, { ...message, status: isTransient ? 'waiting' : 'failed', error: errorText(error) });
    }
  }

  /** Adds a message, or replaces the one with the same `localId`. */
  #putMessage(sessionId: string, message: OutgoingMessage): void {
    updateConversation(sessionId, (conversation) => withOutgoing(conversation, message));
    this.#save();
  }
}
