/** Delivers the messages from the hub, live and from the history, exactly once and in the order of their seqs. */

import { Backoff } from './backoff.mjs';

/**
 * Limit on the live messages that are buffered while the history is read. A full buffer is dropped, and its messages are read from
 * the history.
 */
const MAX_BUFFERED_MESSAGES = 500;

/** The longest pause after a failed read of the history. */
const MAX_RETRY_DELAY_MS = 15_000;

/** Limit on the seqs of this agent's own messages that are kept while an earlier message is missing. */
const MAX_OWN_SEQS = 10_000;

export class Inbox {
  /** The running read of the history. @type {Promise<void> | null} */
  #historyRead = null;
  #mustReread = false;
  #buffered = [];
  #ownSeqs = new Set();

  /**
   * @param {{fetchAfter: (seq: number) => Promise<{seq: number}[]>, onMessage: (message: any) => void, startSeq: number,
   *   isConnected: () => boolean, onError?: (error: Error) => void, retryDelayMs?: number}} options
   *   `fetchAfter`: returns a page of the messages above a seq, in ascending order; an empty page at the end of the history
   */
  constructor({ fetchAfter, onMessage, startSeq, isConnected, onError = () => {}, retryDelayMs = 1000 }) {
    this.fetchAfter = fetchAfter;
    this.onMessage = onMessage;
    this.isConnected = isConnected;
    this.onError = onError;
    this.backoff = new Backoff({ minMs: retryDelayMs, maxMs: MAX_RETRY_DELAY_MS });
    /** The highest delivered seq. */
    this.lastSeq = startSeq;
  }

  /** Handles a message of a live `update`. */
  receive(message) {
    if (typeof message?.seq !== 'number') return;
    if (!this.#historyRead) {
      this.#deliver(message);
    } else if (this.#buffered.length < MAX_BUFFERED_MESSAGES) {
      this.#buffered.push(message);
    } else {
      this.#buffered = [];
      this.#mustReread = true;
    }
  }

  /** Records that this agent sent the message with this seq, so that the message is not read from the history. */
  skipOwn(seq) {
    if (typeof seq !== 'number' || seq <= this.lastSeq) return;
    if (this.#ownSeqs.size < MAX_OWN_SEQS) this.#ownSeqs.add(seq);
    if (!this.#historyRead) this.#deliverOwn();
  }

  /** Reads missed messages from the history. To be called on every connection. */
  catchUp() {
    if (this.#historyRead) {
      this.#mustReread = true;
      return this.#historyRead;
    }
    this.#historyRead = this.#readHistory().finally(() => {
      this.#historyRead = null;
    });
    return this.#historyRead;
  }

  async #readHistory() {
    do {
      this.#mustReread = false;
      for (;;) {
        let page;
        try {
          page = await this.fetchAfter(this.lastSeq);
        } catch (error) {
          this.onError(error);
          // On the next connection, `catchUp` reads the history again, including these messages.
          if (!this.isConnected()) {
            this.#buffered = [];
            return;
          }
          await new Promise((resolve) => setTimeout(resolve, this.backoff.next()));
          continue;
        }
        this.backoff.reset();
        const before = this.lastSeq;
        for (const message of page) this.#deliver(message);
        // A page with few messages may be followed by another page, because a page is also limited in bytes.
        if (this.lastSeq === before) break;
      }
      const buffered = this.#buffered.sort((a, b) => a.seq - b.seq);
      this.#buffered = [];
      if (!this.#mustReread) for (const message of buffered) this.#deliver(message);
    } while (this.#mustReread);
  }

  #deliver(message) {
    if (message.seq <= this.lastSeq) return;
    this.lastSeq = message.seq;
    this.#ownSeqs.delete(message.seq);
    this.onMessage(message);
    this.#deliverOwn();
  }

  /** Delivers own messages without content, as long as no seq before them is missing. */
  #deliverOwn() {
    while (this.#ownSeqs.delete(this.lastSeq + 1)) {
      this.lastSeq += 1;
      this.onMessage({ seq: this.lastSeq, content: null });
    }
  }
}
