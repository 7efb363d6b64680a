/** Somebody who changes a versioned value again and again while others change it, too. */

/** The longest pause between two updates, in milliseconds. */
const PAUSE_MS = 250;

/**
 * Every update adds a mark of its own to the value's list `marks`: so the value itself tells which updates it took, and
 * how often.
 */
export class Updater {
  /** The marks that were ever sent. @type {Set<string>} */
  sent = new Set();
  /** The versions that were acknowledged, by mark. @type {Map<string, number>} */
  acked = new Map();
  #value;
  #version;

  /**
   * @param {import('./steady-cli.mjs').SteadyCli} cli
   * @param {{event: string, subject: Record<string, string>, key: string, version: number, value: any,
   *   change?: (value: any, mark: string) => any}} options `key`: under what name the value goes; `change`: what else an
   *   update does to it
   */
  constructor(cli, { event, subject, key, version, value, change = (same) => same }) {
    Object.assign(this, { cli, storm: cli.storm, event, subject, key, change });
    this.random = this.storm.random.for(`${cli.name} ${event}`);
    this.#version = version;
    this.#value = value;
  }

  async run() {
    await this.storm.repeat(this.random, PAUSE_MS, () => this.#update(`${this.cli.name}-${this.sent.size + 1}`));
  }

  /** Sends an update until it stands in the value, upon whatever others wrote. */
  async #update(mark) {
    this.sent.add(mark);
    while (!this.#value?.marks?.includes(mark)) {
      await this.cli.connected();
      const marks = [...(this.#value?.marks ?? []), mark];
      const value = this.change({ ...this.#value, marks }, mark);
      try {
        const payload = { ...this.subject, expectedVersion: this.#version, [this.key]: value };
        this.#heard(mark, await this.cli.cli.ask(this.event, payload));
      } catch {
        this.storm.count('updates without an answer');
      }
    }
  }

  #heard(mark, { result, version, reason, [this.key]: value }) {
    this.storm.rule(result !== 'error', `${this.event} of ${mark} failed: ${reason}`);
    if (result === 'success') this.acked.set(mark, version);
    else this.storm.count('updates upon an old version');
    this.#version = version;
    // What is completed only grows, and is never sent back.
    const { completedRequests: _, ...rest } = value;
    this.#value = rest;
  }
}
