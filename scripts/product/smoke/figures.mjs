// What a check measured: latencies that the client saw, and the hub's `Server-Timing`.

import { latencyFigures } from '../../lib/statistics.mjs';

/**
 * What the hub reports about a request, with times in milliseconds; undefined if the hub does not report it.
 * @typedef {object} ServerTiming
 * @property {number} [worker] total time in the worker
 * @property {number} [object] time in the namespace's object
 * @property {number} [awake] since the object was loaded
 * @property {number} [d1] waiting for D1
 * @property {number} [batches] batches sent to D1
 * @property {string} [region] where D1 ran the last batch
 */

/** @param {string | undefined} header @returns {ServerTiming} */
export function parseServerTiming(header = '') {
  const timing = {};
  for (const [, name, duration, description = ''] of header.matchAll(/([\w-]+);dur=([\d.]+)(?:;desc="([^"]*)")?/g)) {
    timing[name] = Number(duration);
    if (name !== 'd1') continue;
    timing.batches = Number(/batches=(\d+)/.exec(description)?.[1]);
    timing.region = /region=(\S+)/.exec(description)?.[1];
  }
  return timing;
}

const SERVER_FIGURES = ['worker', 'object', 'd1', 'batches'];

const round = (value) => Math.round(value * 10) / 10;

const summarizeSamples = (samples) => {
  const { p50, p99 } = latencyFigures(samples);
  return { count: samples.length, p50: round(p50), p99: round(p99) };
};

export class Figures {
  #client = [];
  #server = Object.fromEntries(SERVER_FIGURES.map((name) => [name, []]));

  /** @param {number} ms that the client waited @param {ServerTiming} [timing] */
  add(ms, timing = {}) {
    this.#client.push(ms);
    for (const name of SERVER_FIGURES) if (timing[name] !== undefined) this.#server[name].push(timing[name]);
  }

  /** Measures an operation that is not a request. @template T @param {() => Promise<T>} operation @returns {Promise<T>} */
  async time(operation) {
    const startedAt = performance.now();
    const result = await operation();
    this.add(performance.now() - startedAt);
    return result;
  }

  /** Returns the median and the 99th percentile of the client's latencies, and of the times that the hub reported. */
  summarize() {
    const server = SERVER_FIGURES.filter((name) => this.#server[name].length > 0).map((name) => [
      name,
      summarizeSamples(this.#server[name]),
    ]);
    return { ...(this.#client.length > 0 ? summarizeSamples(this.#client) : { count: 0 }), server: Object.fromEntries(server) };
  }
}
