/** Messages from the hub, live and from the history: each is delivered exactly once, in the order of the seqs. */

/** Live messages buffered while the history is read; if there are more, they are read from the history. */
const MAX_BUFFERED = 500;

/** Seqs of own messages remembered while an earlier message is missing. */
const MAX_OWN = 10_000;

export class Inbox {
  #catchUp = null;
  #mustReread = false;
  #buffered = [];
  #ownSeqs = new Set();

  /**
   * @param {{fetchAfter: (seq: number) => Promise<{seq: number}[]>, onMessage: (message: any) => void, startSeq: number,
   *   isConnected: () => boolean, onError?: (error: Error) => void, retryDelayMs?: number}} options
   *   `fetchAfter` returns a page of messages above a seq in ascending order, and an empty page at the end
   */
  constructor({ fetchAfter, onMessage, startSeq, isConnected, onError = () => {}, retryDelayMs = 1000 }) {
    this.fetchAfter = fetchAfter;
    this.onMessage = onMessage;
    this.isConnected = isConnected;
    this.onError = onError;
    this.retryDelayMs = retryDelayMs;
    /** The highest delivered seq. */
    this.lastSeq = startSeq;
  }

  /** Takes a message of a live `update`. */
  receive(message) {
    if (typeof message?.seq !== 'number') return;
    if (!this.#catchUp) {
      this.#deliver(message);
    } else if (this.#buffered.length < MAX_BUFFERED) {
      this.#buffered.push(message);
    } else {
      this.#buffered = [];
      this.#mustReread = true;
    }
  }

  /** Records that the message with this seq was sent by this agent, so it need not be read from the history. */
  skipOwn(seq) {
    if (typeof seq !== 'number' || seq <= this.lastSeq) return;
    if (this.#ownSeqs.size < MAX_OWN) this.#ownSeqs.add(seq);
    if (!this.#catchUp) this.#deliverOwn();
  }

  /** Reads missed messages from the history. To be called on every connection. */
  catchUp() {
    if (this.#catchUp) {
      this.#mustReread = true;
      return this.#catchUp;
    }
    this.#catchUp = this.#readHistory().finally(() => {
      this.#catchUp = null;
    });
    return this.#catchUp;
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
          // The next connection calls `catchUp` again, which then also reads the buffered messages.
          if (!this.isConnected()) {
            this.#buffered = [];
            return;
          }
          await new Promise((resolve) => setTimeout(resolve, this.retryDelayMs));
          continue;
        }
        const before = this.lastSeq;
        for (const message of page) this.#deliver(message);
        // The length of a page does not show whether it is the last one: a page is also limited in bytes.
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
