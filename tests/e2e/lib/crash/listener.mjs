/** A web client that subscribes to a session's events, and resumes after the last received event. */

/** The probability that a listener disconnects after an event, in percent. */
const DISCONNECT_PERCENT = 0.5;

const eventNumber = (eventId) => BigInt(eventId.split('-')[1]);

export class Listener {
  /** The messages of events, in order. */
  received = [];
  /** The messages that were fetched after a gap, by seq. */
  fetched = new Map();
  /** The number of reconnections without and with a gap. */
  resumptions = { ok: 0, gap: 0 };
  #lastEventId;
  #lastSeq = 0;
  /** The last received number of each kind, and whether the client got a gap after it. */
  #lastNumbers = { message: { n: 0 }, metadataVersion: { n: 1 }, agentStateVersion: { n: 1 } };
  #fetches = [];
  #feed;
  #isClosed = false;

  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {{name: string, namespace: string, session: any, channel: 'stream' | 'socket', all?: boolean}} options
   */
  constructor(loadTest, { name, namespace, session, channel, all = false }) {
    this.loadTest = loadTest;
    this.name = name;
    this.session = session;
    this.channel = channel;
    this.query = { sessionId: session.id, ...(all ? { all: 'true' } : {}) };
    this.web = loadTest.hub.web(namespace);
    this.random = loadTest.random.fork(name);
    this.signal = loadTest.signal(name);
  }

  async connect() {
    const id = this.#lastEventId;
    if (this.channel === 'stream') this.#feed = await this.web.openStream(this.query, { lastEventId: id });
    else this.#feed = await this.web.openSocket({ ...this.query, ...(id === undefined ? {} : { lastEventId: id }) });
  }

  /** Receives events until `close`. */
  async run() {
    while (!this.#isClosed) {
      await this.#receive();
      this.#feed.close();
      await this.#reconnect();
    }
    this.#feed.close();
    await Promise.all(this.#fetches);
  }

  /** Waits until all messages up to a seq were received or fetched. */
  waitForMessages(seq) {
    return this.signal.waitUntil(() => this.#lastSeq >= seq, `to have message ${seq}`);
  }

  close() {
    this.#isClosed = true;
    this.#feed?.close();
  }

  async #reconnect() {
    while (!this.#isClosed) {
      try {
        return await this.connect();
      } catch {
        await this.loadTest.pause();
      }
    }
  }

  async #receive() {
    for (;;) {
      let event;
      try {
        event = await this.#feed.next(() => true, 'an event');
      } catch (error) {
        this.loadTest.expect(!/^Timed out/.test(error.message), `${this.name} received no event, not even a heartbeat`);
        return;
      }
      this.#handleEvent(event);
      if (!this.loadTest.isEnding && this.random.chance(DISCONNECT_PERCENT)) return;
    }
  }

  #handleEvent(event) {
    const { eventId, type, sessionId, message, data } = event;
    if (type === 'connection-changed') this.#handleGreeting(data.resume);
    else this.loadTest.expect(this.#isNext(event), `${this.name} received ${type} ${eventId} after ${this.#lastEventId}`);
    this.#lastEventId = eventId;
    if (type === 'message-received') {
      this.loadTest.expect(sessionId === this.session.id, `${this.name} received a message of ${sessionId}`);
      this.#checkNumber('message', message.seq);
      this.received.push(message);
      this.#advance(message.seq);
    }
    if (type === 'machine-updated') this.loadTest.expect(data.active !== false, `${this.name} received that a machine is offline`);
    if (type === 'session-updated') {
      this.loadTest.expect(data.active !== false, `${this.name} received that ${sessionId} is inactive`);
      if (sessionId !== this.session.id) return;
      for (const name of ['metadataVersion', 'agentStateVersion']) if (data[name] !== undefined) this.#checkNumber(name, data[name]);
    }
  }

  /** Whether an event id is valid: ids increase, but a heartbeat, a repeated presence and a disconnect have the id of the previous event. */
  #isNext({ eventId, type, data }) {
    const difference = eventNumber(eventId) - eventNumber(this.#lastEventId);
    const isUnlogged = type === 'session-updated' && (data.active === true || data.disconnected === true);
    return type === 'heartbeat' || isUnlogged ? difference >= 0n : difference > 0n;
  }

  #handleGreeting(resume) {
    if (this.#lastEventId === undefined) this.loadTest.expect(resume === 'ok', `${this.name} is new and received ${resume}`);
    else this.resumptions[resume] += 1;
    if (resume === 'ok') return;
    for (const last of Object.values(this.#lastNumbers)) last.gap = true;
    this.#fetches.push(this.#fetch().catch((error) => this.loadTest.expect(false, `${this.name}: ${error.message}`)));
  }

  /** Checks that seqs and versions are consecutive, except after a reported gap. */
  #checkNumber(kind, n) {
    const { n: last, gap } = this.#lastNumbers[kind];
    const isNext = gap ? n > last : n === last + 1;
    this.loadTest.expect(isNext, `${this.name} received ${kind} ${n} after ${last}${gap ? ' and a gap' : ''}`);
    this.#lastNumbers[kind] = { n };
  }

  /** Fetches the messages after the last known message. */
  async #fetch() {
    let after = this.#lastSeq;
    for (let more = true; more; ) {
      const path = `/api/sessions/${this.session.id}/messages?limit=200&afterSeq=${after}`;
      const { body } = await this.loadTest.retry(() => this.web.get(path));
      for (const message of body.messages) this.fetched.set(message.seq, message);
      after = body.messages.at(-1)?.seq ?? after;
      more = body.hasMore;
    }
    this.#advance(after);
  }

  #advance(seq) {
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    this.signal.notify();
  }
}
