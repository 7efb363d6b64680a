/** Changes a versioned value repeatedly, concurrently with other clients. */

/** The longest pause between two updates. */
const PAUSE_MS = 250;

/** Every update adds a unique mark to the value's list `marks`, so that the value shows which updates were applied. */
export class Updater {
  /** All sent marks. @type {Set<string>} */
  sent = new Set();
  /** The acknowledged versions, by mark. @type {Map<string, number>} */
  acked = new Map();
  #value;
  #version;

  /**
   * @param {import('./reliable-cli.mjs').ReliableCli | import('./reliable-machine.mjs').ReliableMachine} cli
   * @param {{event: string, subject: Record<string, string>, key: string, version: number, value: any,
   *   change?: (value: any, mark: string) => any}} options `key`: the name of the value in the payload; `change`: an
   *   change in addition to the mark
   */
  constructor(cli, { event, subject, key, version, value, change = (same) => same }) {
    this.cli = cli;
    this.loadTest = cli.loadTest;
    this.event = event;
    this.subject = subject;
    this.key = key;
    this.change = change;
    this.random = this.loadTest.random.fork(`${cli.name} ${event}`);
    this.#version = version;
    this.#value = value;
  }

  async run() {
    await this.loadTest.repeat(this.random, PAUSE_MS, () => this.#update(`${this.cli.name}-${this.sent.size + 1}`));
  }

  /** Sends an update until the value contains its mark, each time based on the current value. */
  async #update(mark) {
    this.sent.add(mark);
    while (!this.#value?.marks?.includes(mark)) {
      await this.cli.waitUntilConnected();
      const marks = [...(this.#value?.marks ?? []), mark];
      const value = this.change({ ...this.#value, marks }, mark);
      try {
        const payload = { ...this.subject, expectedVersion: this.#version, [this.key]: value };
        this.#handleAck(mark, await this.cli.cli.emitWithAck(this.event, payload));
      } catch {
        this.loadTest.count('updates without an answer');
      }
    }
  }

  /** @param {string} mark @param {Record<string, any>} ack */
  #handleAck(mark, { result, version, reason, [this.key]: value }) {
    this.loadTest.expect(result !== 'error', `${this.event} of ${mark} failed: ${reason}`);
    if (result === 'success') this.acked.set(mark, version);
    else this.loadTest.count('updates with a version mismatch');
    this.#version = version;
    // CLIs do not send completed requests back.
    const { completedRequests: _, ...rest } = value;
    this.#value = rest;
  }
}
