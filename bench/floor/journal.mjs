/** The floor of a durable write: group commit to D1, each batch one statement with one bound JSON parameter. */

export const SCHEMA =
  'CREATE TABLE messages (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, local_id TEXT, created_at INTEGER NOT NULL, ' +
  'content TEXT NOT NULL)';

const INSERT =
  "INSERT INTO messages (seq, id, local_id, created_at, content) SELECT value->>'seq', value->>'id', " +
  "value->>'localId', value->>'createdAt', value->'content' FROM json_each(?1)";

/** Parameters: the seq to stay below, the number of rows. One row with the page as one JSON text. */
export const PAGE =
  `SELECT group_concat('{"id":"' || id || '","seq":' || seq || ',"createdAt":' || created_at || ',"content":' || ` +
  `content || '}') AS page FROM (SELECT * FROM messages WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2)`;

/** D1 takes values up to 2 MB: stop well below, counted in characters. */
const BATCH_CHARACTERS = 1_000_000;

/** So many turns of the event loop may pass while a batch still grows, so that a steady trickle cannot hold it up. */
const GATHER_TURNS = 500;

export class Journal {
  constructor(database) {
    this.insert = database.prepare(INSERT);
    this.queue = [];
    this.committing = false;
    this.seq = 0;
  }

  /** Resolves to `{id, seq, createdAt}` when the row is durable. */
  append(content, localId) {
    const record = { id: crypto.randomUUID(), seq: ++this.seq, createdAt: Date.now() };
    const text = JSON.stringify({ ...record, localId, content });
    return new Promise((resolve, reject) => {
      this.queue.push({ text, done: () => resolve(record), failed: reject });
      if (!this.committing) this.commit();
    });
  }

  /**
   * Waits as long as each turn of the event loop brings more. The runtime reads about 8 KB of a WebSocket a turn: without
   * this the burst of one CLI is committed seven messages at a time, at less than half the rate. A lone write waits for
   * one turn, which is nothing beside D1.
   */
  async gather() {
    let before = 0;
    for (let turn = 0; turn < GATHER_TURNS && this.queue.length > before; turn += 1) {
      before = this.queue.length;
      if (before * this.queue[0].text.length > BATCH_CHARACTERS) return;
      await new Promise((resolve) => {
        setTimeout(resolve, 0);
      });
    }
  }

  async commit() {
    this.committing = true;
    while (this.queue.length > 0) {
      await this.gather();
      let rows = 0;
      let characters = 0;
      while (rows < this.queue.length && characters < BATCH_CHARACTERS) characters += this.queue[rows++].text.length;
      const batch = this.queue.splice(0, rows);
      try {
        await this.insert.bind(`[${batch.map(({ text }) => text).join(',')}]`).run();
        for (const { done } of batch) done();
      } catch (error) {
        for (const { failed } of batch) failed(error);
      }
    }
    this.committing = false;
  }
}
