/** A CLI that follows the rules of docs/PROTOCOL-CLI.md, "Reliable delivery". */

import { Cli } from '../../../../scripts/product/clients/cli.mjs';

/** Limit on unacknowledged messages. */
const MAX_IN_FLIGHT = 64;
/** The number of messages in a burst. */
const BURST_SIZE = 30;
/** Limits on the pauses between two messages and between two keep-alives. */
const MESSAGE_PAUSE_MS = 8;
const KEEP_ALIVE_PAUSE_MS = 1_000;

export class ReliableCli {
  /** All sent messages, in order: `{localId, message}`. */
  sent = [];
  /** The acknowledged messages, by local id. @type {Map<string, {id: string, seq: number}>} */
  acked = new Map();
  /** The received messages in order: messages of other clients, and own messages that were read after a reconnection. */
  received = [];
  /** Whether each answered permission request was approved, by request id. */
  answers = new Map();
  /** The `thinking` values of the keep-alives, and the index of the last acknowledged value. */
  thinkingValues = [false];
  lastAckedThinking = 0;
  /** The seqs of all stored messages that this CLI knows. @type {Set<number>} */
  knownSeqs = new Set();
  #unacked = new Map();
  #connections = 0;
  #buffered = [];
  #isReading = false;
  /** The last seq of an update on this connection. */
  #lastUpdateSeq = 0;

  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {{name: string, namespace: string, session: any, tokenIn: import('../../../../scripts/product/clients/cli.mjs').TokenIn, sendsMessages?: boolean,
   *   isLeader?: boolean}} options `isLeader`: whether this CLI reports `thinking` and the mode of the session
   */
  constructor(loadTest, { name, namespace, session, tokenIn, sendsMessages = true, isLeader = true }) {
    this.loadTest = loadTest;
    this.name = name;
    this.session = session;
    this.sendsMessages = sendsMessages;
    this.isLeader = isLeader;
    this.random = loadTest.random.fork(name);
    this.signal = loadTest.signal(name);
    this.web = loadTest.hub.web(namespace);
    this.cli = new Cli(loadTest.hub, { namespace, tokenIn, auth: { sessionId: session.id }, reconnection: true });
    this.socket = this.cli.socket;
    this.socket.on('connect', () => this.#handleConnect());
    this.socket.on('update', ({ body }) => body.t === 'new-message' && this.#handleUpdate(body.message));
    // The client library does not reconnect after a refusal or a disconnect by the hub.
    this.socket.on('connect_error', ({ message }) => loadTest.expect(this.socket.active, `${name} was refused: ${message}`));
    this.socket.on('disconnect', (reason) => loadTest.expect(reason !== 'io server disconnect', `${name} was disconnected by the hub`));
    this.socket.on('error', (error) => loadTest.expect(false, `${name} received the error ${JSON.stringify(error)}`));
  }

  /** Connects and sends a keep-alive. */
  async connect() {
    await this.cli.connect();
    await this.cli.keepAlive(this.session.id, this.isLeader ? { thinking: false, mode: 'remote' } : {});
  }

  waitUntilConnected() {
    return this.signal.waitUntil(() => this.socket.connected, 'to be connected');
  }

  /** Waits until one more message is acknowledged. */
  waitForAck() {
    const before = this.acked.size;
    return this.signal.waitUntil(() => this.acked.size > before, 'to get an acknowledgement');
  }

  /** Waits until all messages up to a seq are known. */
  waitForMessages(seq) {
    return this.signal.waitUntil(() => this.knownSeqs.size >= seq, `to know ${seq} messages`);
  }

  /** The number of unacknowledged messages. */
  get unackedCount() {
    return this.#unacked.size;
  }

  /** Sends messages and keep-alives until the test is ending, and waits until all messages are acknowledged. */
  async run() {
    const keepAlives = this.loadTest.repeat(this.random, KEEP_ALIVE_PAUSE_MS, () =>
      this.#keepAlive(this.isLeader && this.random.chance(50)),
    );
    const messages = this.sendsMessages && this.loadTest.repeat(this.random, MESSAGE_PAUSE_MS, () => this.#sendOneOrBurst());
    await Promise.all([keepAlives, messages]);
    await this.signal.waitUntil(() => this.#unacked.size === 0, 'to get all acknowledgements');
  }

  close() {
    this.cli.close();
  }

  async #handleConnect() {
    this.#connections += 1;
    this.#lastUpdateSeq = 0;
    const connection = this.#connections;
    const isLost = () => connection !== this.#connections || !this.socket.connected;
    this.signal.notify();
    this.loadTest.count('messages sent again', this.#unacked.size);
    for (const [localId, message] of this.#unacked) this.#send(localId, message);
    try {
      await Promise.all([
        this.cli.serve('readFile', ({ path }) => ({ success: true, content: Buffer.from(path).toString('base64') })),
        this.cli.serve('permission', ({ id, approved }) => (this.answers.set(id, approved), {})),
        this.#keepAlive(this.thinkingValues.at(-1)),
        this.#catchUp(isLost),
      ]);
    } catch (error) {
      this.loadTest.expect(isLost(), `${this.name} could not start: ${error.message}`);
    }
  }

  async #sendOneOrBurst() {
    await this.signal.waitUntil(() => this.#unacked.size < MAX_IN_FLIGHT, 'to get acknowledgements');
    for (let remaining = this.random.chance(10) ? BURST_SIZE : 1; remaining > 0; remaining -= 1) this.#sendNew();
  }

  #sendNew() {
    const n = this.sent.length + 1;
    const localId = `${this.name}-${n}`;
    const message = { from: this.name, n, text: this.random.text() };
    this.sent.push({ localId, message });
    this.#unacked.set(localId, message);
    if (this.socket.connected) this.#send(localId, message);
  }

  #send(localId, message) {
    this.socket.emit('message', { sid: this.session.id, message, localId }, ({ ok, id, seq, error }) => {
      this.loadTest.expect(ok, `${localId} was refused: ${error}`);
      this.acked.set(localId, { id, seq });
      this.knownSeqs.add(seq);
      this.#unacked.delete(localId);
      this.signal.notify();
    });
  }

  async #keepAlive(thinking) {
    if (!this.socket.connected) return;
    const index = this.thinkingValues.push(thinking) - 1;
    try {
      await this.cli.keepAlive(this.session.id, this.isLeader ? { thinking, mode: 'remote' } : {});
      this.lastAckedThinking = Math.max(this.lastAckedThinking, index);
    } catch {
      this.loadTest.count('keep-alives without an acknowledgement');
    }
  }

  /** Reads the missed messages. Updates that arrive during the read are buffered. */
  async #catchUp(isLost) {
    this.#buffered = [];
    this.#isReading = true;
    for (let more = true; more; ) {
      const path = `/cli/sessions/${this.session.id}/messages?afterSeq=${this.received.at(-1)?.seq ?? 0}`;
      const answer = await this.loadTest.retry(() => this.web.get(path), { isCanceled: isLost });
      if (isLost()) return;
      this.#receive(answer.body.messages);
      more = answer.body.hasMore;
    }
    this.#isReading = false;
    this.#receive(this.#buffered);
  }

  #handleUpdate(message) {
    const { seq } = message;
    this.loadTest.expect(seq > this.#lastUpdateSeq, `${this.name} received message ${seq} after ${this.#lastUpdateSeq} on one connection`);
    this.#lastUpdateSeq = seq;
    if (this.#isReading) this.#buffered.push(message);
    else this.#receive([message]);
  }

  #receive(messages) {
    for (const message of messages) {
      if (message.seq <= (this.received.at(-1)?.seq ?? 0)) continue;
      this.received.push(message);
      this.knownSeqs.add(message.seq);
    }
    this.signal.notify();
  }
}
