/**
 * A value that the hub keeps under a version (metadata, agent state): changed by merging, never by overwriting what
 * somebody else wrote in between.
 */

/** How often a change is merged anew before it is given up. */
const MAX_TRIES = 50;

/** How often a change that the hub could not take at the moment is sent again. */
const MAX_ERRORS = 6;

/** The codes of errors that pass. Any other one tells of a mistake in the change, which no second try mends. */
const PASSING = ['overloaded', 'unavailable'];

export class Versioned {
  #last = Promise.resolve();

  /**
   * @param {{request: (event: string, payload: object) => Promise<any>, event: string, field: string,
   *   scope: Record<string, string>, value: any, version: number, retryMs?: number}} options `event` and `field` as in
   *   the hub's `update-*` events; `scope` names the session or machine; `retryMs`: first pause after an error of the
   *   hub, doubled each time
   */
  constructor({ request, event, field, scope, value, version, retryMs = 250 }) {
    this.request = request;
    this.event = event;
    this.field = field;
    this.scope = scope;
    this.value = value;
    this.version = version;
    this.retryMs = retryMs;
    /** Called after a value that came from the hub replaced the one held here. */
    this.onAdopt = () => {};
  }

  /** Takes over a value of the hub unless it is older than the one held. */
  adopt(version, value) {
    if (typeof version !== 'number' || version <= this.version) return;
    this.version = version;
    this.value = value;
    this.onAdopt(value);
  }

  /**
   * Changes the value. Changes run one after another.
   * @param {(current: any) => any} change pure; it may run several times, on ever newer values, and returns its argument
   *   itself when there is nothing to do (any more)
   * @returns {Promise<void>} settled when the hub has it
   */
  mutate(change) {
    const turn = this.#last.then(() => this.#apply(change));
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #apply(change) {
    let errors = 0;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const next = change(this.value);
      if (next === this.value) return;
      const expectedVersion = this.version;
      const ack = await this.request(this.event, { ...this.scope, expectedVersion, [this.field]: next });
      if (ack?.result === 'success') {
        this.adopt(ack.version, ack[this.field] ?? next);
        return;
      }
      if (ack?.result !== 'version-mismatch') {
        errors += 1;
        if (errors === MAX_ERRORS || !PASSING.includes(ack?.code))
          throw new Error(`The hub did not take ${this.event}: ${ack?.reason ?? 'no reason given'}`);
        const pause = this.retryMs * 2 ** (errors - 1);
        await new Promise((resolve) => setTimeout(resolve, pause));
        continue;
      }
      // The hub's word counts, even when its version is lower: it may have been restored from a backup.
      this.version = ack.version;
      this.value = ack[this.field] ?? null;
      this.onAdopt(this.value);
    }
    throw new Error(`The hub changed ${this.field} faster than it could be merged; ${this.event} was given up.`);
  }
}
