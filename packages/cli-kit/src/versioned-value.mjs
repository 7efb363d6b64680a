/**
 * A versioned value at the hub: metadata, agent state or runner state. Changes use optimistic concurrency control: on a version
 * mismatch, the change is applied to the hub's current value and sent again. After a transient error, the change is sent again until the hub
 * stores it, or until the change no longer changes the value: for example because a permission request was withdrawn.
 */

import { setTimeout as sleep } from 'node:timers/promises';

/** Limit on the version mismatches of one change. */
const MAX_MISMATCHES = 50;

/** The pause after the first transient error. It doubles with each further error, up to the limit. */
const MIN_PAUSE_MS = 250;
const MAX_PAUSE_MS = 15_000;

/** Codes of transient errors. With any other code the change is invalid, and a retry cannot succeed. */
const TRANSIENT = ['overloaded', 'unavailable', 'served-elsewhere'];

export class VersionedValue {
  #lastChange = Promise.resolve();

  /**
   * @param {{socket: Pick<import('./hub-socket.mjs').HubSocket, 'sendUntilAcked'>, event: string, field: string,
   *   scope: Record<string, string>, record: Record<string, any>, wait?: (ms: number) => Promise<unknown>}} options
   *   - `event`, `field`: the event that changes the value, and the value's field in this event
   *   - `scope`: the id of the session or machine
   *   - `record`: the session or machine, with the value and its version
   *   - `wait`: waits before a change is sent again. By default, the wait does not keep the process alive: the open socket does
   */
  constructor({ socket, event, field, scope, record, wait = (ms) => sleep(ms, undefined, { ref: false }) }) {
    this.socket = socket;
    this.event = event;
    this.field = field;
    this.scope = scope;
    this.value = record[field];
    this.version = record[`${field}Version`];
    this.wait = wait;
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
    let pauseMs = MIN_PAUSE_MS;
    for (let mismatches = 0; mismatches < MAX_MISMATCHES; ) {
      const newValue = change(this.value);
      if (newValue === this.value) return;
      const expectedVersion = this.version;
      const ack = await this.socket.sendUntilAcked(this.event, { ...this.scope, expectedVersion, [this.field]: newValue });
      if (ack?.result === 'success') {
        this.adopt(ack.version, ack[this.field] ?? newValue);
        return;
      }
      if (ack?.result !== 'version-mismatch') {
        if (!TRANSIENT.includes(ack?.code)) throw new Error(`The hub refused ${this.event}: ${ack?.reason ?? 'no reason given'}`);
        await this.wait(pauseMs);
        pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS);
        continue;
      }
      mismatches += 1;
      // The hub's value replaces the local value even if the hub's version is lower: its database may have been restored.
      this.version = ack.version;
      this.value = ack[this.field] ?? null;
      this.onAdopt(this.value);
    }
    throw new Error(`${this.event} failed: ${this.field} changed at the hub during each of ${MAX_MISMATCHES} attempts.`);
  }
}
