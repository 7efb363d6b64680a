// The `Server-Timing` header of responses to clients with a valid token (docs/MONITORING.md). The clock of the platform advances
// only while a request waits for I/O, so the durations contain no CPU time.

import { parseHeaders } from './glue.js';

const HEADER = 'server-timing';

/** Milliseconds on a monotonic clock. */
export const now = () => Math.round(performance.now());

/** Measures the requests of one object, and the batches that it sends to D1. */
export class Meter {
  #loadedAt = now();
  #batches = 0;
  #batchMs = 0;
  #rowsRead = 0;
  #rowsWritten = 0;
  /** The region in which D1 ran the last batch; empty if the platform does not report it. */
  #region = '';

  /** Returns the D1 database with a measurement of its batches. */
  measureDatabase(db) {
    return { prepare: (sql) => db.prepare(sql), batch: (statements) => this.#measure(db.batch(statements)) };
  }

  /** Returns the number of batches, and the rows that they read and wrote. */
  usage() {
    return Float64Array.of(this.#batches, this.#rowsRead, this.#rowsWritten);
  }

  /** Starts the measurement of a request. */
  start() {
    return { startedAt: now(), batches: this.#batches, batchMs: this.#batchMs };
  }

  /**
   * Adds the header to a response: the time in the object, the time since the object was loaded, and the batches that ended
   * during the request. Batches of concurrent requests are counted as well.
   */
  finish({ startedAt, batches, batchMs }, response) {
    const region = this.#region && ` region=${this.#region}`;
    const d1 = `d1;dur=${this.#batchMs - batchMs};desc="batches=${this.#batches - batches}${region}"`;
    response.headers.set(HEADER, `object;dur=${now() - startedAt}, awake;dur=${now() - this.#loadedAt}, ${d1}`);
  }

  async #measure(batch) {
    const startedAt = now();
    try {
      const results = await batch;
      for (const { meta } of results) {
        this.#rowsRead += meta?.rows_read ?? 0;
        this.#rowsWritten += meta?.rows_written ?? 0;
      }
      const { served_by_colo: colo, served_by_region: region } = results.at(-1)?.meta ?? {};
      this.#region = colo ?? region ?? '';
      return results;
    } finally {
      this.#batches += 1;
      this.#batchMs += now() - startedAt;
    }
  }
}

/**
 * Rebuilds a response with more headers, which replace headers of the same name; `Vary` is appended instead.
 * @param {string} headers alternating lines with a name and a value
 * @param {number} [startedAt] the time from `now` when the worker received the request; undefined without a valid token
 */
export function withHeaders(response, headers, startedAt) {
  if (headers === '' && startedAt === undefined) return response;
  const rebuilt = new Response(response.body, response);
  for (const [name, value] of parseHeaders(headers)) {
    if (name === 'vary') rebuilt.headers.append(name, value);
    else rebuilt.headers.set(name, value);
  }
  if (startedAt !== undefined) rebuilt.headers.append(HEADER, `worker;dur=${now() - startedAt}`);
  return rebuilt;
}
