/** A web client that listens to a session and comes back with the id of the last event that it heard. */

import { SILENCE_MS } from './storm.mjs';

/** After how many of a hundred events it goes away by itself and comes back. */
const LEAVES = 0.5;

const numberOf = (eventId) => BigInt(eventId.split('-')[1]);

export class Listener {
  /** The messages that it was told, in order. */
  heard = [];
  /** What it fetched after a gap, by seq. */
  fetched = new Map();
  /** How often it came back and had missed nothing, and how often it was told a gap. */
  resumed = { ok: 0, gap: 0 };
  #lastEventId;
  #known = 0;
  /** What it heard last of what is counted, and whether it may have missed something since. */
  #last = { message: { n: 0 }, metadataVersion: { n: 1 }, agentStateVersion: { n: 1 } };
  #fetching = [];
  #feed;
  #closed = false;

  /**
   * @param {import('./storm.mjs').Storm} storm
   * @param {{name: string, namespace: string, session: any, channel: 'sse' | 'socket', all?: boolean}} options
   */
  constructor(storm, { name, namespace, session, channel, all = false }) {
    Object.assign(this, { storm, name, session, channel });
    this.query = { sessionId: session.id, ...(all ? { all: 'true' } : {}) };
    this.web = storm.hub.web(namespace);
    this.random = storm.random.for(name);
    this.signal = storm.signal(name);
  }

  /** Settled when it is subscribed. */
  async connect() {
    const id = this.#lastEventId;
    if (this.channel === 'sse') this.#feed = await this.web.sse(this.query, { lastEventId: id });
    else this.#feed = await this.web.socket({ ...this.query, ...(id === undefined ? {} : { lastEventId: id }) });
  }

  /** Listens until it is closed. */
  async run() {
    while (!this.#closed) {
      await this.#listen();
      this.#feed.close();
      await this.#comeBack();
    }
    this.#feed.close();
    await Promise.all(this.#fetching);
  }

  /** Settled when it knows of a message, by an event or because it fetched it. */
  knows(seq) {
    return this.signal.until(() => this.#known >= seq, `to know message ${seq}`);
  }

  close() {
    this.#closed = true;
    this.#feed?.close();
  }

  async #comeBack() {
    while (!this.#closed) {
      try {
        return await this.connect();
      } catch {
        await this.storm.pause();
      }
    }
  }

  async #listen() {
    for (;;) {
      let event;
      try {
        event = await this.#feed.next(() => true, 'an event', SILENCE_MS);
      } catch (error) {
        this.storm.rule(!/^Waited \d+ s/.test(error.message), `${this.name} heard nothing, not even a heartbeat`);
        return;
      }
      this.#take(event);
      if (!this.storm.calm && this.random.chance(LEAVES)) return;
    }
  }

  #take(event) {
    const { eventId, type, sessionId, message, data } = event;
    if (type === 'connection-changed') this.#greeted(data.resume);
    else this.storm.rule(this.#isNext(event), `${this.name} heard ${type} ${eventId} after ${this.#lastEventId}`);
    this.#lastEventId = eventId;
    if (type === 'message-received') {
      this.storm.rule(sessionId === this.session.id, `${this.name} heard a message of ${sessionId}`);
      this.#counted('message', message.seq);
      this.heard.push(message);
      this.#know(message.seq);
    }
    if (type === 'machine-updated') this.storm.rule(data.active !== false, `${this.name} heard that a machine is gone`);
    if (type === 'session-updated') {
      this.storm.rule(data.active !== false, `${this.name} heard that ${sessionId} ended`);
      if (sessionId !== this.session.id) return;
      for (const name of ['metadataVersion', 'agentStateVersion']) if (data[name] !== undefined) this.#counted(name, data[name]);
    }
  }

  /** Ids grow; a heartbeat has none of its own, but that of the last event, and so has presence that is only said again. */
  #isNext({ eventId, type, data }) {
    const ahead = numberOf(eventId) - numberOf(this.#lastEventId);
    const isPresence = type === 'session-updated' && data.active === true;
    return type === 'heartbeat' || isPresence ? ahead >= 0n : ahead > 0n;
  }

  #greeted(resume) {
    if (this.#lastEventId === undefined) this.storm.rule(resume === 'ok', `${this.name} is new and was told ${resume}`);
    else this.resumed[resume] += 1;
    if (resume === 'ok') return;
    for (const last of Object.values(this.#last)) last.gap = true;
    this.#fetching.push(this.#fetch().catch((error) => this.storm.rule(false, `${this.name}: ${error.message}`)));
  }

  /** What is counted comes without a hole and never twice, but for a gap that was told. */
  #counted(what, n) {
    const { n: last, gap } = this.#last[what];
    const next = gap ? n > last : n === last + 1;
    this.storm.rule(next, `${this.name} heard ${what} ${n} after ${last}${gap ? ' and a gap' : ''}`);
    this.#last[what] = { n };
  }

  /** Fetches the messages after those that it knows. */
  async #fetch() {
    let after = this.#known;
    for (let more = true; more; ) {
      const path = `/api/sessions/${this.session.id}/messages?limit=200&afterSeq=${after}`;
      const { body } = await this.storm.persist(() => this.web.get(path));
      for (const message of body.messages) this.fetched.set(message.seq, message);
      after = body.messages.at(-1)?.seq ?? after;
      more = body.hasMore;
    }
    this.#know(after);
  }

  #know(seq) {
    this.#known = Math.max(this.#known, seq);
    this.signal.give();
  }
}
