/**
 * The built worker with a clock that `Hub.advance` moves forward. The worker and all objects share the clock, and their timers follow it.
 * An advance moves the alarm of one object. Replaces the entry module.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** How often a timer reads the clock, in milliseconds. */
const POLL_MS = 50;

/** How far the clock is ahead of the computer's clock, in milliseconds. */
let offsetMs = 0;

const { now } = Date;
Date.now = () => now() + offsetMs;

const { setTimeout, clearTimeout } = globalThis;
/** The ids of the runtime's timers, by the ids of the timers that wait for the clock. */
const timers = new Map();
let lastTimer = 0;

globalThis.setTimeout = (callback, ms = 0, ...args) => {
  lastTimer += 1;
  const [id, dueAt] = [lastTimer, Date.now() + ms];
  const poll = () => {
    const remainingMs = dueAt - Date.now();
    if (remainingMs > 0) return timers.set(id, setTimeout(poll, Math.min(remainingMs, POLL_MS)));
    timers.delete(id);
    callback(...args);
  };
  timers.set(id, setTimeout(poll, Math.min(ms, POLL_MS)));
  return id;
};

globalThis.clearTimeout = (id) => {
  clearTimeout(timers.get(id));
  timers.delete(id);
};

export class NamespaceHub extends BuiltHub {
  #setAlarm;
  #storage;

  constructor(state, env) {
    const { storage } = state;
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = (at) => setAlarm(Number(at) - offsetMs);
    super(state, env);
    this.#storage = storage;
    this.#setAlarm = setAlarm;
  }

  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== '/e2e/advance') return super.fetch(request);
    const at = await this.#storage.getAlarm();
    if (at !== null) await this.#setAlarm(at - Number(searchParams.get('ms')));
    return Response.json(Date.now());
  }
}

export default class extends Worker {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== '/e2e/advance') return super.fetch(request);
    offsetMs += Number(searchParams.get('ms'));
    const { HUB } = this.env;
    return HUB.get(HUB.idFromName(searchParams.get('namespace'))).fetch(request);
  }
}
