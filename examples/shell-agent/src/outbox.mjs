/**
 * Messages on their way to the hub: in order, none lost, none twice.
 *
 * Each has a `localId`, by which the hub recognizes one that it already has. What is not acknowledged when the connection
 * ends goes out again on the next one. After a refusal that passes nothing new goes out until all that was under way is
 * answered: then what was refused goes first, so that only what the hub took beside it can stand before it. Memory is
 * bounded: when the outbox is full, `push` waits, and with it whoever produces the messages.
 */

import { randomUUID } from 'node:crypto';

/** Refusals that no second try can change. */
const FINAL = /^(bad[-_]|invalid|too[-_]large|payload|not[-_]found|access[-_]denied|forbidden|unauthorized)/;
/** Refusals that pass: these messages are kept however long it takes. */
const PASSING = /unavailable|overloaded|timeout|busy|rate/;
const TRIES = 5;
const MAX_PATIENCE_MS = 60_000;

export class Outbox {
  #items = new Map();
  #bytes = 0;
  #inFlight = 0;
  #epoch = 0;
  #refused = false;
  #pause = null;
  #pauseMs = 0;
  #patience;
  #turn = Promise.resolve();
  #waiting = new Set();
  #closed = false;

  /**
   * @param {{socket: {connected: boolean, ask: Function, cycle: () => void}, sid: string,
   *   log: {warn: (text: string) => void}, maxBytes?: number, window?: number, retryMs?: number,
   *   ackMs?: number, onStored?: (seq: number, localId: string) => void}} options `window`: how many messages may be
   *   unacknowledged at a time; `onStored` is told the seq and the local id of each message that the hub has stored
   */
  constructor({
    socket,
    sid,
    log,
    maxBytes = 4 * 1024 * 1024,
    window = 64,
    retryMs = 500,
    ackMs = 8000,
    onStored = () => {},
  }) {
    this.socket = socket;
    this.sid = sid;
    this.log = log;
    this.maxBytes = maxBytes;
    this.window = window;
    this.retryMs = retryMs;
    this.ackMs = ackMs;
    this.onStored = onStored;
    this.#patience = ackMs;
  }

  /** Messages that are not acknowledged yet. */
  get size() {
    return this.#items.size;
  }

  /** Their size in bytes. */
  get bytes() {
    return this.#bytes;
  }

  /**
   * Hands a message over. Waits for room when the outbox is full.
   * @param {object} message the content, opaque to the hub
   * @param {string} [localId] under which the hub may have it already
   * @returns {Promise<string>} its `localId`
   */
  push(message, localId = randomUUID()) {
    const turn = this.#turn.then(async () => {
      while (this.#bytes >= this.maxBytes && !this.#closed) await this.#change();
      if (this.#closed) throw new Error('The session has ended; the message was not sent.');
      const bytes = Buffer.byteLength(JSON.stringify(message));
      this.#items.set(localId, { payload: { sid: this.sid, message, localId }, bytes, sent: false, tries: 0 });
      this.#bytes += bytes;
      this.pump();
      return localId;
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** To be called when the connection is up (again): everything that was not acknowledged goes out, in order. */
  connected() {
    this.#newEpoch();
    this.pump();
  }

  /** To be called when the connection is lost. */
  disconnected() {
    this.#newEpoch();
  }

  /**
   * Waits until everything is acknowledged.
   * @returns {Promise<boolean>} false when time ran out first
   */
  async flush(timeoutMs) {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#wake();
    }, timeoutMs);
    await Promise.race([this.#turn, this.#until(() => late)]);
    await this.#until(() => late || this.#items.size === 0);
    clearTimeout(timer);
    return this.#items.size === 0;
  }

  /** Takes no more messages and lets those who wait for room go. */
  close() {
    this.#closed = true;
    clearTimeout(this.#pause);
    this.#wake();
  }

  /** Sends what may be sent. */
  pump() {
    if (this.#refused || this.#closed || !this.socket.connected) return;
    const epoch = this.#epoch;
    for (const [localId, item] of this.#items) {
      if (this.#inFlight >= this.window) return;
      if (item.sent) continue;
      item.sent = true;
      this.#inFlight += 1;
      this.socket
        .ask('message', item.payload, this.#patience)
        .then((answer) => this.#answered(epoch, localId, item, answer));
    }
  }

  #answered(epoch, localId, item, answer) {
    // An answer of an earlier connection: its messages are already waiting to be sent again.
    if (epoch !== this.#epoch) return;
    this.#inFlight -= 1;
    item.sent = false;
    if (answer === null) {
      // Sending again behind what went out since would change the order; a new connection starts from the first.
      if (this.socket.connected) {
        this.#newEpoch();
        // A hub that is merely slow gets more time with every round.
        this.#patience = Math.min(this.#patience * 2, MAX_PATIENCE_MS);
        this.socket.cycle();
      }
      return;
    }
    if (answer.ack?.ok === true) {
      this.#pauseMs = 0;
      this.#patience = this.ackMs;
      this.onStored(answer.ack.seq, localId);
      this.#remove(localId, item);
    } else {
      this.#refuse(localId, item, answer.ack ?? {});
    }
    if (this.#refused && this.#inFlight === 0) this.#pumpLater();
    this.pump();
  }

  #refuse(localId, item, { code = '', error, reason }) {
    item.tries += 1;
    if (FINAL.test(code) || (item.tries >= TRIES && !PASSING.test(code))) {
      this.log.warn(`the hub did not take a message, it is dropped: ${error ?? reason ?? (code || 'no reason given')}`);
      this.#remove(localId, item);
      return;
    }
    this.#refused = true;
  }

  #pumpLater() {
    this.#pauseMs = Math.min(Math.max(this.retryMs, this.#pauseMs * 2), 15_000);
    this.#pause = setTimeout(() => {
      this.#refused = false;
      this.pump();
    }, this.#pauseMs);
  }

  #remove(localId, item) {
    this.#items.delete(localId);
    this.#bytes -= item.bytes;
    this.#wake();
  }

  #newEpoch() {
    this.#epoch += 1;
    this.#inFlight = 0;
    clearTimeout(this.#pause);
    this.#refused = false;
    for (const item of this.#items.values()) item.sent = false;
  }

  async #until(test) {
    while (!test()) await this.#change();
  }

  #change() {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  #wake() {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}
