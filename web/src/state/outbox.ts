/**
 * The outbox: shows a new message immediately, and sends the message. After a transient error, the outbox sends the message again, until
 * the hub has stored or rejected the message.
 * - The `localId` of a message is its idempotency key.
 * - The messages of one session are sent in order, one at a time, by one tab of the browser.
 * - The browser's database stores the messages until they are sent.
 */

import { type Api, unwrap } from '../api/client.ts';
import { errorText, HubError } from '../api/errors.ts';
import { randomId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { isUnsent, withOutgoing, withoutOutgoing } from './conversation.ts';
import type { Database } from './database.ts';
import { getConversation, state, updateConversation } from './store.ts';
import type { TryWithLock } from './tab-lock.ts';
import type { TabMessage } from './tabs.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';

/** The wait before a retry doubles from the minimum to the maximum. */
const MIN_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 30_000;

/** A message in the database, by `localId`. The fields must not change: the messages are kept across a deploy. */
export interface StoredMessage {
  sessionId: string;
  text: string;
  attachments: Attachment[];
  createdAt: number;
  mayWait?: boolean;
  /** Why the hub rejected the message. Only the user can send a rejected message again. */
  error?: string;
}

/** The hub, the database and the browser features that {@link Outbox} uses. Tests pass their own environment. */
export interface OutboxEnvironment {
  api: Pick<Api, 'POST'>;
  database: Promise<Database>;
  tryWithLock: TryWithLock;
  postToTabs: (message: TabMessage) => void;
  now?: () => number;
  generateId?: () => string;
}

const isPending = ({ status }: OutgoingMessage) => status === 'sending' || status === 'waiting';

/** Returns the messages of a session that still have to be sent, oldest first. Leaves out rejected messages. */
const pendingMessages = (sessionId: string) => getConversation(sessionId).outgoing.filter(isPending);

/** Returns all messages that the hub has not stored, including rejected messages. */
export const unsentMessages = (): OutgoingMessage[] =>
  Object.values(state.value.conversations).flatMap(({ outgoing }) => outgoing.filter(isUnsent));

export class Outbox {
  #environment: OutboxEnvironment;
  /** The running {@link #sendInOrder} of each session. A session has at most one, so that its messages stay in order. */
  #sending = new Map<string, Promise<void>>();
  /** The scheduled retry of each session with waiting messages. */
  #retries = new Map<string, { backoff: number; timer: ReturnType<typeof setTimeout> }>();
  /** By `localId` of each message that this tab knows to be in the database: whether the hub has rejected the message. */
  #stored = new Map<string, boolean>();
  /** The `localId`s of messages that were sent or discarded. The database may still return them for a moment. */
  #finished = new Set<string>();
  /** The `localId`s of messages that could not be stored. */
  #volatile = new Set<string>();

  constructor(environment: OutboxEnvironment) {
    this.#environment = environment;
  }

  /**
   * Sends a message after the session's earlier messages. Resolves when all messages of the session are sent or wait for a retry.
   * `mayWait`: if the session's CLI is away, the hub holds the message until the CLI is back.
   */
  send(sessionId: string, text: string, attachments: Attachment[], mayWait = false): Promise<void> {
    const { now = Date.now, generateId = randomId } = this.#environment;
    // The messages in the database are sorted by `createdAt`.
    const createdAt = Math.max(now(), ...getConversation(sessionId).outgoing.map((earlier) => earlier.createdAt + 1));
    return this.#enqueue(sessionId, {
      ...{ localId: generateId(), text, attachments, createdAt, status: 'sending' },
      ...(mayWait ? { mayWait } : {}),
    });
  }

  /** Sends a failed or waiting message again. The hub stores a `localId` only once. `mayWait`: as for {@link send}. */
  retry(sessionId: string, { error: _, ...message }: OutgoingMessage, mayWait = message.mayWait ?? false): Promise<void> {
    return this.#enqueue(sessionId, { ...message, ...(mayWait ? { mayWait } : {}), status: 'sending' });
  }

  discard(sessionId: string, localId: string): void {
    updateConversation(sessionId, (conversation) => withoutOutgoing(conversation, localId));
    void this.#delete(sessionId, localId, false);
  }

  /** Moves the unsent messages of a session that was merged into another. */
  async move(from: string, to: string): Promise<void> {
    // The event of the merge may have removed the session's messages from the state.
    await this.readStored();
    const messages = getConversation(from).outgoing.filter(isUnsent);
    for (const message of messages) {
      updateConversation(from, (conversation) => withoutOutgoing(conversation, message.localId));
      this.#stored.delete(message.localId);
      this.#putMessage(to, message);
    }
    if (messages.some(isPending)) await this.#startSending(to);
  }

  /** Sends the waiting messages of all sessions, including messages that a tab stored before it was closed. */
  async sendWaiting(): Promise<void> {
    await this.readStored();
    const waiting = Object.entries(state.value.conversations).filter(([, { outgoing }]) =>
      outgoing.some(({ status }) => status === 'waiting'),
    );
    await Promise.all(waiting.map(([sessionId]) => this.#startSending(sessionId)));
  }

  /** Applies a change that another tab made. */
  async handleTabMessage({ sessionId, sentId }: Extract<TabMessage, { type: 'outbox' }>): Promise<void> {
    const sent = getConversation(sessionId).outgoing.find(({ localId }) => localId === sentId);
    if (sent) this.#showAsSent(sessionId, sent);
    await this.readStored();
  }

  /** Shows the messages in the database, and removes the messages that another tab has sent or discarded. */
  async readStored(): Promise<void> {
    const database = await this.#environment.database;
    let records: [localId: string, StoredMessage][];
    try {
      records = (await database.getAll('outbox')) as typeof records;
    } catch {
      return;
    }
    const sessionOf = new Map(records.map(([localId, { sessionId }]) => [localId, sessionId]));
    for (const [sessionId, { outgoing }] of Object.entries(state.value.conversations)) {
      for (const { localId } of outgoing.filter(isUnsent)) {
        if (!this.#stored.has(localId) || sessionOf.get(localId) === sessionId) continue;
        updateConversation(sessionId, (conversation) => withoutOutgoing(conversation, localId));
      }
    }
    for (const [localId, { sessionId, ...message }] of records.sort(([, a], [, b]) => a.createdAt - b.createdAt)) {
      const isRejected = message.error !== undefined;
      const known = getConversation(sessionId).outgoing.find((other) => other.localId === localId);
      // The state of this tab is newer than the record, because this tab has not stored its last change yet.
      const isNewer = known && (known.status === 'sending' || this.#stored.get(localId) !== (known.status === 'failed'));
      if (isNewer || this.#finished.has(localId) || (known && this.#stored.get(localId) === isRejected)) continue;
      this.#stored.set(localId, isRejected);
      updateConversation(sessionId, (conversation) =>
        withOutgoing(conversation, { localId, ...message, status: isRejected ? 'failed' : 'waiting' }),
      );
    }
    for (const sessionId of new Set(sessionOf.values())) this.#deleteConfirmed(sessionId);
  }

  #enqueue(sessionId: string, message: OutgoingMessage): Promise<void> {
    this.#putMessage(sessionId, message);
    return this.#startSending(sessionId);
  }

  /** Starts to send the pending messages of a session, unless they are already being sent. */
  #startSending(sessionId: string): Promise<void> {
    let sending = this.#sending.get(sessionId);
    if (!sending) this.#sending.set(sessionId, (sending = this.#sendInOrder(sessionId)));
    return sending;
  }

  /** Sends the pending messages of a session in order, up to the first transient error. */
  async #sendInOrder(sessionId: string): Promise<void> {
    const isOnlySender = await this.#environment.tryWithLock(`outbox ${sessionId}`, async () => {
      for (let message = await this.#readNextPending(sessionId); message; message = await this.#readNextPending(sessionId)) {
        await this.#post(sessionId, message);
        const pending = pendingMessages(sessionId);
        // The message is no longer pending: it was stored, rejected, or discarded.
        if (pending[0]?.localId !== message.localId) continue;
        // After a transient error, later messages wait too, because the order must not change.
        for (const waiting of pending) this.#putMessage(sessionId, { ...waiting, status: 'waiting' });
        break;
      }
    });
    this.#sending.delete(sessionId);
    this.#deleteConfirmed(sessionId);
    this.#scheduleRetry(sessionId, pendingMessages(sessionId).length > 0, isOnlySender);
  }

  /** Deletes messages from the database that are in the history: an earlier page was closed before it received the hub's response. */
  #deleteConfirmed(sessionId: string): void {
    for (const { localId } of getConversation(sessionId).messages) {
      if (localId && this.#stored.has(localId) && !this.#finished.has(localId)) void this.#delete(sessionId, localId, true);
    }
  }

  /** Returns the next message to send, after reading what the other tabs have written and sent. */
  async #readNextPending(sessionId: string): Promise<OutgoingMessage | undefined> {
    await this.readStored();
    return pendingMessages(sessionId)[0];
  }

  /** Schedules a retry if messages are waiting; otherwise resets the backoff. */
  #scheduleRetry(sessionId: string, isWaiting: boolean, isOnlySender: boolean): void {
    const previous = this.#retries.get(sessionId);
    clearTimeout(previous?.timer);
    this.#retries.delete(sessionId);
    if (!isWaiting) return;
    // The other tab that holds the lock finishes soon, so the backoff does not grow.
    const backoff = previous && isOnlySender ? Math.min(2 * previous.backoff, MAX_BACKOFF_MS) : MIN_BACKOFF_MS;
    // The retry needs a timer, because an overloaded hub (429, 503) sends no event when it has recovered.
    this.#retries.set(sessionId, { backoff, timer: setTimeout(() => void this.#startSending(sessionId), backoff) });
  }

  async #post(sessionId: string, { error: _, ...message }: OutgoingMessage): Promise<void> {
    this.#putMessage(sessionId, { ...message, status: 'sending' });
    const { localId, text, attachments, mayWait } = message;
    const body = {
      localId,
      ...(text === '' ? {} : { text }),
      ...(attachments.length === 0 ? {} : { attachments }),
      ...(mayWait ? { hold: true } : {}),
    };
    try {
      const response = await unwrap(
        this.#environment.api.POST('/api/sessions/{id}/messages', { params: { path: { id: sessionId } }, body }),
      );
      if ('held' in response) {
        this.#finished.add(localId);
        updateConversation(sessionId, (conversation) => withOutgoing(conversation, { ...message, status: 'held' }));
        return void this.#delete(sessionId, localId, false);
      }
      const { message: stored } = response;
      // An earlier attempt has stored the message. The message is older than the loaded messages, so no event will replace it.
      if (stored.seq < (getConversation(sessionId).messages[0]?.seq ?? 0)) return this.discard(sessionId, localId);
      this.#showAsSent(sessionId, message);
      void this.#delete(sessionId, localId, true);
    } catch (error) {
      const isTransient = error instanceof HubError && error.isTransient;
      this.#putMessage(sessionId, { ...message, status: isTransient ? 'waiting' : 'failed', error: errorText(error) });
    }
  }

  /** Shows a message as sent, until the event with the stored message arrives. */
  #showAsSent(sessionId: string, message: OutgoingMessage): void {
    this.#finished.add(message.localId);
    updateConversation(sessionId, (conversation) => withOutgoing(conversation, { ...message, status: 'sent' }));
  }

  /** Adds a message, or replaces the message with the same `localId`. */
  #putMessage(sessionId: string, message: OutgoingMessage): void {
    this.#showMessage(sessionId, message);
    const isRejected = message.status === 'failed';
    if (this.#stored.get(message.localId) !== isRejected) void this.#store(sessionId, message, isRejected);
  }

  /** Stores a message. If the database fails, marks the message as volatile, because the message does not survive the page. */
  async #store(sessionId: string, message: OutgoingMessage, isRejected: boolean): Promise<void> {
    const database = await this.#environment.database;
    const { localId, text, attachments, createdAt, mayWait, error } = message;
    const record: StoredMessage = {
      ...{ sessionId, text, attachments, createdAt },
      ...(mayWait ? { mayWait } : {}),
      ...(isRejected && error !== undefined ? { error } : {}),
    };
    try {
      await database.put('outbox', localId, record);
      this.#stored.set(localId, isRejected);
    } catch (failure) {
      console.warn('A message cannot be stored in this browser.', failure);
    }
    const isStored = database.isDurable && this.#stored.has(localId);
    this.#setVolatile(sessionId, localId, !isStored);
    if (isStored) this.#environment.postToTabs({ type: 'outbox', sessionId });
  }

  #setVolatile(sessionId: string, localId: string, isVolatile: boolean): void {
    if (this.#volatile.has(localId) === isVolatile) return;
    if (isVolatile) this.#volatile.add(localId);
    else this.#volatile.delete(localId);
    const message = getConversation(sessionId).outgoing.find((other) => other.localId === localId);
    if (message) this.#showMessage(sessionId, message);
  }

  #showMessage(sessionId: string, { isVolatile: _, ...message }: OutgoingMessage): void {
    const shown = this.#volatile.has(message.localId) ? { ...message, isVolatile: true } : message;
    updateConversation(sessionId, (conversation) => withOutgoing(conversation, shown));
  }

  /** Deletes a sent or discarded message from the database. */
  async #delete(sessionId: string, localId: string, isSent: boolean): Promise<void> {
    this.#finished.add(localId);
    const database = await this.#environment.database;
    await database.delete('outbox', localId).catch(() => {});
    this.#environment.postToTabs({ type: 'outbox', sessionId, ...(isSent ? { sentId: localId } : {}) });
  }
}
