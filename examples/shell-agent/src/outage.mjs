/** What the person at the terminal hears of a hub that is away: once that it is, once that it is back. */

import { withPatience } from './hub-client.mjs';

export class Outage {
  /** Who misses the hub: several connections may, for the same reason. */
  #missing = new Set();

  /** @param {{hub: string, log: ReturnType<typeof import('./log.mjs').makeLog>}} options */
  constructor({ hub, log }) {
    this.hub = hub;
    this.log = log;
  }

  /**
   * @param {string} who
   * @param {string} why
   */
  lost(who, why) {
    this.log.debug(`${who}: ${why}`);
    if (this.#missing.size === 0) {
      this.log.warn(
        `The hub at ${this.hub} is away (${why}). Is it running? \`npm run dev\` starts one on this computer, --hub names` +
          ' another. Until it is back, this waits and tries again without a word.',
      );
    }
    this.#missing.add(who);
  }

  /** @param {string} who */
  back(who) {
    this.log.debug(`${who}: connected`);
    if (this.#missing.delete(who) && this.#missing.size === 0) this.log.info('The hub is back.');
  }

  /** It will not come back, and waits for nothing. @param {string} who */
  forget(who) {
    this.#missing.delete(who);
  }

  /**
   * Calls until the hub answers.
   * @template T
   * @param {string} who
   * @param {() => Promise<T>} call
   * @param {number} forMs how long it may be away
   * @returns {Promise<T>}
   * @throws {import('./hub-client.mjs').HubError}
   */
  async call(who, call, forMs) {
    const answer = await withPatience(call, { forMs, onRetry: (error) => this.lost(who, error.reason) });
    this.back(who);
    return answer;
  }
}
