/** The floor's queue of writes: group commit to D1, with one statement and one bound JSON parameter per batch. */

export const SCHEMA =
  'CREATE TABLE messages (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, local_id TEXT, created_at INTEGER NOT NULL, ' +
  'content TEXT NOT NULL)';

const INSERT =
  "INSERT INTO messages (seq, id, local_id, created_at, content) SELECT value->>'seq', value->>'id', " +
  "value->>'localId', value->>'createdAt', value->'content' FROM json_each(?1)";

const SELECT_LAST_SEQ = 'SELECT max(seq) AS seq FROM messages';

/** Selects a page of messages as one JSON text. Parameters: the exclusive upper bound of seq, and the number of messages. */
export const SELECT_PAGE =
  `SELECT group_concat('{"id":"' || id || '","seq":' || seq || ',"createdAt":' || created_at || ',"content":' || ` +
  `content || '}') AS page FROM (SELECT * FROM messages WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2)`;

/** Limit on the characters of a batch. D1 accepts values of at most 2 MB. */
const BATCH_CHARACTERS = 1_000_000;

/** For at most this many passes of the event loop, a commit waits while its batch grows. */
const MAX_GATHER_PASSES = 500;

export class WriteQueue {
  constructor(database) {
    this.insert = database.prepare(INSERT);
    this.selectLastSeq = database.prepare(SELECT_LAST_SEQ);
    this.queue = [];
    this.isCommitting = false;
    this.seq = null;
    this.loading = null;
  }

  /** Reads the last stored seq, once after each wake. */
  load() {
    this.loading ??= this.selectLastSeq.first('seq').then((seq) => {
      this.seq = seq ?? 0;
    });
    return this.loading;
  }

  /** Adds a message. Resolves to `{id, seq, createdAt}` after the commit. */
  async append(content, localId) {
    if (this.seq === null) await this.load();
    const record = { id: crypto.randomUUID(), seq: ++this.seq, createdAt: Date.now() };
    const text = JSON.stringify({ ...record, localId, content });
    return new Promise((resolve, reject) => {
      this.queue.push({ text, resolve: () => resolve(record), reject });
      if (!this.isCommitting) this.commit();
    });
  }

  /**
   * Waits while each pass of the event loop adds to the queue. The runtime reads about 8 KB of a WebSocket per pass. Without this wait, a
   * burst of one CLI is committed in batches of seven messages, at less than half the rate. A single write waits for only one pass.
   */
  async waitForBurst() {
    let previousLength = 0;
    for (let pass = 0; pass < MAX_GATHER_PASSES && this.queue.length > previousLength; pass += 1) {
      previousLength = this.queue.length;
      if (previousLength * this.queue[0].text.length > BATCH_CHARACTERS) return;
      await new Promise((resolve) => {
        setTimeout(resolve, 0);
      });
    }
  }

  async commit() {
    this.isCommitting = true;
    while (this.queue.length > 0) {
      await this.waitForBurst();
      let rows = 0;
      let characters = 0;
      while (rows < this.queue.length && characters < BATCH_CHARACTERS) characters += this.queue[rows++].text.length;
      const batch = this.queue.splice(0, rows);
      try {
        await this.insert.bind(`[${batch.map(({ text }) => text).join(',')}]`).run();
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.isCommitting = false;
  }
}
