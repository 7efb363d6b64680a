/**
 * Messages from the hub: live ones and those of the history, each handed on exactly once, in the order of their seq.
 */


/** Live messages kept while the history is read; above that they are read from the history, too. */
const MAX_HELD = 500;

/** Seqs of own messages kept while one before them is missing. */
const MAX_OWN = 10_000;

export class Inbox {
  #catching = null;
  #again = false;
  #held = [];
  #own = new Set();

  /**
   * @param {{fetchAfter: (seq: number) => Promise<{seq: number}[]>, onMessage: (message: any) => void, startSeq: number,
   *   isConnected: () => boolean, onError?: (error: Error) => void, retryMs?: number}} options
   *   `fetchAfter` answers a page of messages above a seq, lowest first; an empty one at the end
   */
  constructor({ fetchAfter, onMessage, startSeq, isConnected, onError = () => {}, retryMs = 1000 }) {
    this.fetchAfter = fetchAfter;
    this.onMessage = onMessage;
    this.isConnected = isConnected;
    this.onError = onError;
    this.retryMs = retryMs;
    /** Highest seq that was handed on. */
    this.seen = startSeq;
  }

  /** A message that came with a live `update`. */
  live(message) {
    if (typeof message?.seq !== 'number') return;
    if (!this.#catching) {
      this.#deliver(message);
    } else if (this.#held.length < MAX_HELD) {
      this.#held.push(message);
    } else {
      this.#held = [];
      this.#again = true;
    }
  }

  /** A message of this agent was stored under this seq: it need not be read from the history. */
  own(seq) {
    if (typeof seq !== 'number' || seq <= this.seen) return;
    if (this.#own.size < MAX_OWN) this.#own.add(seq);
    if (!this.#catching) this.#absorb();
  }

  /** Reads what was missed, on every new connection. */
  catchUp() {
    if (this.#catching) {
      this.#again = true;
      return this.#catching;
    }
    this.#catching = this.#read().finally(() => {
      this.#catching = null;
    });
    return this.#catching;
  }

  async #read() {
    do {
      this.#again = false;
      for (;;) {
        let page;
        try {
          page = await this.fetchAfter(this.seen);
        } catch (error) {
          this.onError(error);
          // Without a connection the next one starts this again, and what was held is part of the history then.
          if (!this.isConnected()) {
            this.#held = [];
            return;
          }
          await new Promise((resolve) => setTimeout(resolve, this.retryMs));
          continue;
        }
        const before = this.seen;
        for (const message of page) this.#deliver(message);
        // A page can be short of `limit` and not the last: it also ends after some megabytes.
        if (this.seen === before) break;
      }
      const held = this.#held.sort((a, b) => a.seq - b.seq);
      this.#held = [];
      if (!this.#again) for (const message of held) this.#deliver(message);
    } while (this.#again);
  }

  #deliver(message) {
    if (message.seq <= this.seen) return;
    this.seen = message.seq;
    this.#own.delete(message.seq);
    this.onMessage(message);
    this.#absorb();
  }

  /** Passes over this agent's own messages as far as no other may be missing before them. */
  #absorb() {
    while (this.#own.delete(this.seen + 1)) {
      this.seen += 1;
      this.onMessage({ seq: this.seen, content: null });
    }
  }
}
