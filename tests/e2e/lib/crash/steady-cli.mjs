/** A CLI that keeps the rules under which nothing gets lost (docs/PROTOCOL.md, "Reliable delivery"). */

import { Cli } from '../cli.mjs';

/** How many messages it sends without having heard that they are kept. */
const WINDOW = 64;
/** How many it sends at once now and then. */
const BURST = 30;
/** The longest pauses between two messages and between two signs of life, in milliseconds. */
const TALK_MS = 8;
const SIGN_MS = 1_000;

export class SteadyCli {
  /** All that it ever sent, in order: `{localId, message}`. */
  sent = [];
  /** What it heard of those that are kept, by local id. @type {Map<string, {id: string, seq: number}>} */
  acked = new Map();
  /** What it read, in order: messages of others, and those of its own that it found when it came back. */
  heard = [];
  /** The answers to permission requests that it was told, by id: whether they are approved. */
  answers = new Map();
  /** Whether it thinks, as it said each time, and which of these was acknowledged last. */
  thoughts = [false];
  settled = 0;
  /** The messages that it knows to be there, by seq. @type {Set<number>} */
  known = new Set();
  #unacked = new Map();
  #connections = 0;
  #held = [];
  #reading = false;
  /** The last message that it was told of on this connection. */
  #live = 0;

  /**
   * @param {import('./storm.mjs').Storm} storm
   * @param {{name: string, namespace: string, session: any, way: import('../cli.mjs').Way, talks?: boolean, leads?: boolean}}
   *   options `leads`: it is the one of its session that tells what the agent does
   */
  constructor(storm, { name, namespace, session, way, talks = true, leads = true }) {
    Object.assign(this, { storm, name, session, talks, leads });
    this.random = storm.random.for(name);
    this.signal = storm.signal(name);
    this.web = storm.hub.web(namespace);
    this.cli = new Cli(storm.hub, { namespace, way, auth: { sessionId: session.id }, reconnection: true });
    this.socket = this.cli.socket;
    this.socket.on('connect', () => this.#arrive());
    this.socket.on('update', ({ body }) => body.t === 'new-message' && this.#update(body.message));
    // What the hub refuses or ends itself, the client does not try again.
    this.socket.on('connect_error', ({ message }) => storm.rule(this.socket.active, `${name} was refused: ${message}`));
    this.socket.on('disconnect', (reason) => storm.rule(reason !== 'io server disconnect', `${name} was sent away`));
    this.socket.on('error', (error) => storm.rule(false, `${name} was told ${JSON.stringify(error)}`));
  }

  /** Settled when the session is alive. */
  async connect() {
    await this.cli.connect();
    await this.cli.alive(this.session.id, this.leads ? { thinking: false, mode: 'remote' } : {});
  }

  /** Settled when it is connected. */
  connected() {
    return this.signal.until(() => this.socket.connected, 'to be connected');
  }

  /** Settled when one more message is acknowledged. */
  acknowledged() {
    const before = this.acked.size;
    return this.signal.until(() => this.acked.size > before, 'to hear that a message is kept');
  }

  /** Settled when it knows of all messages up to one. */
  knows(seq) {
    return this.signal.until(() => this.known.size >= seq, `to know ${seq} messages`);
  }

  /** How many messages nobody can tell of whether they are kept. */
  get inFlight() {
    return this.#unacked.size;
  }

  /** Talks and gives signs of life until the calm; then waits until all that it sent is kept. */
  async run() {
    const signs = this.storm.repeat(this.random, SIGN_MS, () => this.#sign(this.leads && this.random.chance(50)));
    const talk = this.talks && this.storm.repeat(this.random, TALK_MS, () => this.#talk());
    await Promise.all([signs, talk]);
    await this.signal.until(() => this.#unacked.size === 0, 'to hear that all messages are kept');
  }

  close() {
    this.cli.close();
  }

  async #arrive() {
    this.#connections += 1;
    this.#live = 0;
    const connection = this.#connections;
    const gone = () => connection !== this.#connections || !this.socket.connected;
    this.signal.give();
    this.storm.count('messages sent again', this.#unacked.size);
    for (const [localId, message] of this.#unacked) this.#send(localId, message);
    try {
      await Promise.all([
        this.cli.serve('readFile', ({ path }) => ({ success: true, content: Buffer.from(path).toString('base64') })),
        this.cli.serve('permission', ({ id, approved }) => (this.answers.set(id, approved), {})),
        this.#sign(this.thoughts.at(-1)),
        this.#catchUp(gone),
      ]);
    } catch (error) {
      this.storm.rule(gone(), `${this.name} could not begin: ${error.message}`);
    }
  }

  async #talk() {
    await this.signal.until(() => this.#unacked.size < WINDOW, 'to hear that messages are kept');
    for (let rest = this.random.chance(10) ? BURST : 1; rest > 0; rest -= 1) this.#say();
  }

  #say() {
    const n = this.sent.length + 1;
    const localId = `${this.name}-${n}`;
    const message = { from: this.name, n, text: this.random.text() };
    this.sent.push({ localId, message });
    this.#unacked.set(localId, message);
    if (this.socket.connected) this.#send(localId, message);
  }

  #send(localId, message) {
    this.socket.emit('message', { sid: this.session.id, message, localId }, ({ ok, id, seq, error }) => {
      this.storm.rule(ok, `${localId} was refused: ${error}`);
      this.acked.set(localId, { id, seq });
      this.known.add(seq);
      this.#unacked.delete(localId);
      this.signal.give();
    });
  }

  async #sign(thinking) {
    if (!this.socket.connected) return;
    const at = this.thoughts.push(thinking) - 1;
    try {
      await this.cli.alive(this.session.id, this.leads ? { thinking, mode: 'remote' } : {});
      this.settled = Math.max(this.settled, at);
    } catch {
      this.storm.count('signs of life without an answer');
    }
  }

  /** Reads what was said meanwhile. What comes by itself until then waits behind it. */
  async #catchUp(gone) {
    this.#held = [];
    this.#reading = true;
    for (let more = true; more; ) {
      const path = `/cli/sessions/${this.session.id}/messages?afterSeq=${this.heard.at(-1)?.seq ?? 0}`;
      const answer = await this.storm.persist(() => this.web.get(path), { unless: gone });
      if (gone()) return;
      this.#hear(answer.body.messages);
      more = answer.body.hasMore;
    }
    this.#reading = false;
    this.#hear(this.#held);
  }

  #update(message) {
    const { seq } = message;
    this.storm.rule(seq > this.#live, `${this.name} was told message ${seq} after ${this.#live} on one connection`);
    this.#live = seq;
    if (this.#reading) this.#held.push(message);
    else this.#hear([message]);
  }

  #hear(messages) {
    for (const message of messages) {
      if (message.seq <= (this.heard.at(-1)?.seq ?? 0)) continue;
      this.heard.push(message);
      this.known.add(message.seq);
    }
    this.signal.give();
  }
}
