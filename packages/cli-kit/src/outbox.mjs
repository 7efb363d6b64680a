/**
 * The queue of messages to the hub. The hub stores each message exactly once, and in order.
 *
 * - Exactly once: unacknowledged messages are sent again on the next connection. The hub detects duplicates by `localId`.
 * - In order: after a transient refusal, the outbox waits until all in-flight messages are answered, then sends the refused messages
 *   first. Only a message that was in flight together with a refused message can be stored before the refused message.
 * - Quotas: the outbox keeps messages that a quota of the namespace refuses. After the pause that the hub asks for, the outbox sends one
 *   message. The other messages follow when the hub has stored this message.
 * - Bounded memory: while the outbox is full, `push` waits, which slows down the producer of the messages.
 */

import { randomUUID } from 'node:crypto';

/** Error codes of permanent refusals: the message is dropped. */
const PERMANENT_CODES = /^(bad[-_]|invalid|too[-_]large|payload|not[-_]found|access[-_]denied|forbidden|unauthorized)/;
/** Error codes of transient refusals: the message is retried without a limit. */
const TRANSIENT_CODES = /unavailable|overloaded|timeout|busy|rate|elsewhere/;
/** Limit on the attempts to send a message that is refused with any other code. */
const MAX_ATTEMPTS = 5;
const MAX_PAUSE_MS = 15_000;
/** The longest pause that the hub may ask for. */
const MAX_QUOTA_PAUSE_MS = 120_000;

export class Outbox {
  #items = new Map();
  #bytes = 0;
  #inFlight = 0;
  #epoch = 0;
  #isPaused = false;
  #pauseTimer = null;
  #pauseMs = 0;
  /** How long the hub asks to wait, because of a quota. */
  #quotaPauseMs = 0;
  /** Whether a quota has refused the last message that was answered. */
  #isOverQuota = false;
  /** @type {Promise<unknown>} */
  #lastPush = Promise.resolve();
  #changeListeners = new Set();
  #isClosed = false;

  /**
   * @param {{socket: {isConnected: boolean, sendWithAck: Function, reconnect: () => void}, sid: string,
   *   log: {warn: (text: string) => void}, maxBytes?: number, maxInFlight?: number, retryDelayMs?: number,
   *   onStored?: (seq: number, localId: string) => void}} options `maxInFlight`: limit on in-flight messages;
   *   `onStored`: called for each message that the hub has stored
   */
  constructor({ socket, sid, log, maxBytes = 4 * 1024 * 1024, maxInFlight = 64, retryDelayMs = 500, onStored = () => {} }) {
    this.socket = socket;
    this.sid = sid;
    this.log = log;
    this.maxBytes = maxBytes;
    this.maxInFlight = maxInFlight;
    this.retryDelayMs = retryDelayMs;
    this.onStored = onStored;
  }

  /** Number of unacknowledged messages. */
  get size() {
    return this.#items.size;
  }

  /** Size of the unacknowledged messages in bytes. */
  get bytes() {
    return this.#bytes;
  }

  /**
   * Appends a message, after waiting for space if the outbox is full.
   * @param {object} message the content, opaque to the hub
   * @param {string} [localId] the idempotency key: the hub stores only one message for each key
   * @returns {Promise<string>} its `localId`
   */
  push(message, localId = randomUUID()) {
    const pushed = this.#lastPush.then(async () => {
      while (this.#bytes >= this.maxBytes && !this.#isClosed) await this.#waitForChange();
      if (this.#isClosed) throw new Error('The session has ended; the message was not sent.');
      const bytes = Buffer.byteLength(JSON.stringify(message));
      this.#items.set(localId, { payload: { sid: this.sid, message, localId }, bytes, isInFlight: false, attempts: 0 });
      this.#bytes += bytes;
      this.#sendPending();
      return localId;
    });
    this.#lastPush = pushed.catch(() => {});
    return pushed;
  }

  /** Sends all unacknowledged messages in order. To be called on every connection. */
  onConnected() {
    this.#startEpoch();
    this.#sendPending();
  }

  /** To be called when the connection is lost. */
  onDisconnected() {
    this.#startEpoch();
  }

  /**
   * Waits until every message is acknowledged.
   * @returns {Promise<boolean>} false on timeout
   */
  async flush(timeoutMs) {
    let hasTimedOut = false;
    const timer = setTimeout(() => {
      hasTimedOut = true;
      this.#notifyChange();
    }, timeoutMs);
    let isPushed = false;
    const onPushed = () => {
      isPushed = true;
      this.#notifyChange();
    };
    this.#lastPush.then(onPushed, onPushed);
    await this.#waitUntil(() => hasTimedOut || (isPushed && this.#items.size === 0));
    clearTimeout(timer);
    return this.#items.size === 0;
  }

  /** Stops sending. Waiting and later calls of `push` fail. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#pauseTimer);
    this.#notifyChange();
  }

  #sendPending() {
    if (this.#isPaused || this.#isClosed || !this.socket.isConnected) return;
    const epoch = this.#epoch;
    const maxInFlight = this.#isOverQuota ? 1 : this.maxInFlight;
    for (const [localId, item] of this.#items) {
      if (this.#inFlight >= maxInFlight) return;
      if (item.isInFlight) continue;
      item.isInFlight = true;
      this.#inFlight += 1;
      this.socket.sendWithAck('message', item.payload).then((answer) => this.#handleAnswer(epoch, localId, item, answer));
    }
  }

  #handleAnswer(epoch, localId, item, answer) {
    // An answer of an earlier epoch: its message is already pending again.
    if (epoch !== this.#epoch) return;
    this.#inFlight -= 1;
    item.isInFlight = false;
    if (answer === null) {
      // On this connection, the message would now arrive after later messages. A new connection sends all messages in order.
      if (this.socket.isConnected) {
        this.#startEpoch();
        this.socket.reconnect();
      }
      return;
    }
    if (answer.ack?.ok === true) {
      this.#pauseMs = 0;
      this.#isOverQuota = false;
      this.onStored(answer.ack.seq, localId);
      this.#remove(localId, item);
    } else {
      this.#handleRefusal(localId, item, answer.ack ?? {});
    }
    if (this.#isPaused && this.#inFlight === 0) this.#resumeLater();
    this.#sendPending();
  }

  #handleRefusal(localId, item, { code = '', error, reason, quota, retryAfterMs = 0 }) {
    item.attempts += 1;
    if (PERMANENT_CODES.test(code) || (item.attempts >= MAX_ATTEMPTS && !TRANSIENT_CODES.test(code))) {
      this.log.warn(`the hub refused a message, which is dropped: ${error ?? reason ?? (code || 'no reason given')}`);
      this.#remove(localId, item);
      return;
    }
    this.#isPaused = true;
    if (quota === undefined) return;
    this.#quotaPauseMs = Math.min(retryAfterMs, MAX_QUOTA_PAUSE_MS);
    if (!this.#isOverQuota) this.log.warn(`messages wait, because the hub refuses them for now: ${error ?? quota}`);
    this.#isOverQuota = true;
  }

  #resumeLater() {
    this.#pauseMs = Math.min(Math.max(this.retryDelayMs, this.#pauseMs * 2), MAX_PAUSE_MS);
    const pauseMs = Math.max(this.#pauseMs, this.#quotaPauseMs);
    this.#quotaPauseMs = 0;
    this.#pauseTimer = setTimeout(() => {
      this.#isPaused = false;
      this.#sendPending();
    }, pauseMs);
  }

  #remove(localId, item) {
    this.#items.delete(localId);
    this.#bytes -= item.bytes;
    this.#notifyChange();
  }

  /** Begins an epoch, the time of one connection: makes every message pending again. Late answers of earlier epochs are ignored. */
  #startEpoch() {
    this.#epoch += 1;
    this.#inFlight = 0;
    clearTimeout(this.#pauseTimer);
    this.#isPaused = false;
    for (const item of this.#items.values()) item.isInFlight = false;
  }

  async #waitUntil(isReached) {
    while (!isReached()) await this.#waitForChange();
  }

  #waitForChange() {
    return new Promise((resolve) => this.#changeListeners.add(resolve));
  }

  #notifyChange() {
    const listeners = [...this.#changeListeners];
    this.#changeListeners.clear();
    for (const resolve of listeners) resolve();
  }
}
