/**
 * A versioned value at the hub: metadata, agent state or runner state. Changes use optimistic concurrency control: on a version
 * mismatch, the change is applied to the hub's current value and sent again.
 */

/** Limit on attempts after version mismatches. */
const MAX_ATTEMPTS = 50;

/** Limit on transient errors of one change. */
const MAX_ERRORS = 6;

/** Codes of transient errors. With any other code the change is invalid, and a retry cannot succeed. */
const TRANSIENT = ['overloaded', 'unavailable'];

export class VersionedValue {
  #lastChange = Promise.resolve();

  /**
   * @param {{socket: Pick<import('./hub-socket.mjs').HubSocket, 'sendUntilAcked'>, event: string, field: string,
   *   scope: Record<string, string>, record: Record<string, any>, retryDelayMs?: number}} options
   *   - `event`, `field`: the event that changes the value, and the value's field in this event
   *   - `scope`: the id of the session or machine
   *   - `record`: the session or machine, with the value and its version
   *   - `retryDelayMs`: the pause after the first transient error; it doubles with each further error
   */
  constructor({ socket, event, field, scope, record, retryDelayMs = 250 }) {
    this.socket = socket;
    this.event = event;
    this.field = field;
    this.scope = scope;
    this.value = record[field];
    this.version = record[`${field}Version`];
    this.retryDelayMs = retryDelayMs;
    /** Called when a value from the hub has replaced the local value. */
    this.onAdopt = (/** @type {any} */ _value) => {};
  }

  /** Replaces the local value by a newer value from the hub. */
  adopt(version, value) {
    if (typeof version !== 'number' || version <= this.version) return;
    this.version = version;
    this.value = value;
    this.onAdopt(value);
  }

  /**
   * Changes the value. Changes run one at a time.
   * @param {(current: any) => any} change a pure function, which may run several times; returns its argument to change
   *   nothing
   * @returns {Promise<void>} resolves when the hub has stored the new value
   */
  mutate(change) {
    const changed = this.#lastChange.then(() => this.#apply(change));
    this.#lastChange = changed.catch(() => {});
    return changed;
  }

  async #apply(change) {
    let errorCount = 0;
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts += 1) {
      const newValue = change(this.value);
      if (newValue === this.value) return;
      const expectedVersion = this.version;
      const ack = await this.socket.sendUntilAcked(this.event, { ...this.scope, expectedVersion, [this.field]: newValue });
      if (ack?.result === 'success') {
        this.adopt(ack.version, ack[this.field] ?? newValue);
        return;
      }
      if (ack?.result !== 'version-mismatch') {
        errorCount += 1;
        if (errorCount === MAX_ERRORS || !TRANSIENT.includes(ack?.code))
          throw new Error(`The hub refused ${this.event}: ${ack?.reason ?? 'no reason given'}`);
        const pause = this.retryDelayMs * 2 ** (errorCount - 1);
        await new Promise((resolve) => setTimeout(resolve, pause));
        continue;
      }
      // The hub's value replaces the local value even if the hub's version is lower: its database may have been restored.
      this.version = ack.version;
      this.value = ack[this.field] ?? null;
      this.onAdopt(this.value);
    }
    throw new Error(`${this.event} failed: ${this.field} changed at the hub during each of ${MAX_ATTEMPTS} attempts.`);
  }
}
