/**
 * Simulated time for this process: timers and clocks. The timeouts inside of Node, such as the timeouts of sockets, and other processes
 * still use real time.
 */

import { syncBuiltinESMExports } from 'node:module';
import { performance } from 'node:perf_hooks';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';

const real = {
  setTimeout,
  setInterval,
  clearTimeout,
  clearInterval,
  now: Date.now,
  elapsed: performance.now,
  delay: timersPromises.setTimeout,
};

/** Passes of the event loop after each step: enough for a message on a connection within this process, and its answer. */
const PASSES = 4;

/** Interval at which simulated time follows real time. */
const FOLLOW_INTERVAL_MS = 5;

const nextPass = () => new Promise((resolve) => setImmediate(resolve));

class Timer {
  constructor(clock, { run, ms, isRepeated }) {
    this.clock = clock;
    this.run = run;
    // As Node: at least 1 ms.
    this.ms = Math.max(1, Number(ms) || 1);
    this.isRepeated = isRepeated;
    this.refresh();
  }

  refresh() {
    this.dueAt = this.clock.elapsedMs + this.ms;
    this.clock.timers.add(this);
    return this;
  }

  ref() {
    return this;
  }

  unref() {
    return this;
  }

  hasRef() {
    return true;
  }

  close() {
    this.clock.timers.delete(this);
    return this;
  }
}

export class SimulatedClock {
  elapsedMs = 0;
  /** The timers that are set. @type {Set<Timer>} */
  timers = new Set();
  #startedAt = real.now();

  /** Replaces the timers and clocks of this process, until `uninstall`. */
  install() {
    const set =
      (isRepeated) =>
      (run, ms, ...args) =>
        new Timer(this, { run: () => run(...args), ms, isRepeated });
    const clear = (timer) => timer?.clock && this.timers.delete(timer);
    const delay = (ms, value, { signal } = /** @type {{signal?: AbortSignal}} */ ({})) =>
      new Promise((resolve, reject) => {
        const abort = () => {
          clear(timer);
          reject(new DOMException('The operation was aborted', 'AbortError'));
        };
        const timer = set(false)(() => {
          signal?.removeEventListener('abort', abort);
          resolve(value);
        }, ms);
        if (signal?.aborted) abort();
        else signal?.addEventListener('abort', abort, { once: true });
      });
    this.#replace({
      setTimeout: set(false),
      setInterval: set(true),
      clearTimeout: clear,
      clearInterval: clear,
      now: () => Math.floor(this.#startedAt + this.elapsedMs),
      elapsed: () => this.elapsedMs,
      delay,
    });
  }

  uninstall() {
    this.timers.clear();
    this.#replace(real);
  }

  #replace({ now, elapsed, delay, ...functions }) {
    Object.assign(globalThis, functions);
    Object.assign(timers, functions);
    timersPromises.setTimeout = delay;
    Date.now = now;
    performance.now = elapsed;
    syncBuiltinESMExports();
  }

  /** Simulated time follows real time until a promise is settled: other processes take real time. */
  async follow(promise) {
    let isSettled = false;
    const settled = promise.finally(() => (isSettled = true));
    settled.catch(() => {});
    let at = real.elapsed.call(performance);
    while (!isSettled) {
      await Promise.race([settled.catch(() => {}), real.delay(FOLLOW_INTERVAL_MS)]);
      const now = real.elapsed.call(performance);
      await this.advance(now - at);
      at = now;
    }
    return settled;
  }

  /** Lets simulated time pass, while no other process has anything to do. Runs each due timer at its time. */
  async advance(ms) {
    const end = this.elapsedMs + ms;
    for (;;) {
      let next = null;
      for (const timer of this.timers) if (timer.dueAt <= end && (next === null || timer.dueAt < next.dueAt)) next = timer;
      if (next === null) break;
      this.elapsedMs = Math.max(this.elapsedMs, next.dueAt);
      this.#runDue();
      for (let i = 0; i < PASSES; i += 1) await nextPass();
    }
    this.elapsedMs = end;
  }

  /** Simulates the sleep of the computer: no timer runs meanwhile, and all that are due run afterwards. */
  async sleep(ms) {
    this.elapsedMs += ms;
    await this.advance(0);
  }

  #runDue() {
    const due = [...this.timers].filter(({ dueAt }) => dueAt <= this.elapsedMs).sort((a, b) => a.dueAt - b.dueAt);
    for (const timer of due) {
      if (!this.timers.has(timer)) continue;
      if (timer.isRepeated) timer.dueAt = this.elapsedMs + timer.ms;
      else this.timers.delete(timer);
      timer.run();
    }
  }
}
