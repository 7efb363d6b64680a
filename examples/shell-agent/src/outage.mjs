/**
 * What the person at the terminal hears of a hub that is away: once that it is, once that it is back.
 *
 * Event: `back`, when one of those who miss the hub has found it. The others need not wait for their next try.
 */

import { EventEmitter } from 'node:events';
import { withPatience } from './hub-client.mjs';
import { TOKEN_ADVICE } from './token.mjs';

export class Outage extends EventEmitter {
  /** Who misses the hub: several connections may, for the same reason. */
  #missing = new Set();
  #refused = false;

  /** @param {{hub: string, log: ReturnType<typeof import('./log.mjs').makeLog>}} options */
  constructor({ hub, log }) {
    super();
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

  /**
   * The hub is there and refuses a token that it took before. It may be that the hub is set up wrongly, and will be right
   * again: until then nothing that was said here is given up.
   * @param {string} who
   * @param {string} why
   */
  refused(who, why) {
    this.log.debug(`${who}: ${why}`);
    this.#missing.add(who);
    if (this.#refused) return;
    this.#refused = true;
    this.log.warn(
      `The hub at ${this.hub} does not take the token any more (${why}). ${TOKEN_ADVICE} Until it does, this waits and` +
        ' tries again, and keeps what was said meanwhile. Ctrl-C gives up.',
    );
  }

  /** @param {string} who */
  misses(who) {
    return this.#missing.has(who);
  }

  /** @param {string} who */
  back(who) {
    this.log.debug(`${who}: connected`);
    this.#refused = false;
    if (!this.#missing.delete(who)) return;
    if (this.#missing.size === 0) this.log.info('The hub is back.');
    this.emit('back');
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
