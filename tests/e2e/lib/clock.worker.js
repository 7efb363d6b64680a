/**
 * The built worker with a clock that `Hub.advance` moves forward. All objects share the clock. An advance moves the alarm of one object
 * only, and no timer (`setTimeout`). Replaces the entry module.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** How far the clock is ahead of the computer's clock, in milliseconds. */
let offsetMs = 0;

const { now } = Date;
Date.now = () => now() + offsetMs;

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
