// A client of the hub's interface for devices.

import { UserError } from './errors.mjs';

const TIMEOUT_MS = 15_000;

/**
 * @typedef {object} Device
 * @property {string} id
 * @property {string} name
 * @property {string} kind
 * @property {number} createdAt Unix milliseconds
 * @property {number | null} lastSeenAt Unix milliseconds
 * @property {boolean} isCurrent whether the token of the request is the device's
 */

export class DevicesClient {
  #hub;
  #token;

  /** @param {{hub: string, token: string}} options `hub`: the address without a trailing slash */
  constructor({ hub, token }) {
    this.#hub = hub;
    this.#token = token;
  }

  /** @returns {Promise<Device[]>} */
  async list() {
    return (await this.#call('GET', '')).devices;
  }

  /**
   * Creates a code that adds a device.
   * @param {{name?: string, kind?: string}} device
   * @returns {Promise<{code: string, expiresAt: number}>} `expiresAt`: Unix milliseconds
   */
  createCode(device) {
    return this.#call('POST', '/codes', device);
  }

  /** @param {string} id @param {string} name @returns {Promise<{device: Device}>} */
  rename(id, name) {
    return this.#call('PATCH', `/${encodeURIComponent(id)}`, { name });
  }

  /** @param {string} id */
  async revoke(id) {
    await this.#call('DELETE', `/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @returns {Promise<any>}
   * @throws {UserError}
   */
  async #call(method, path, body) {
    const headers = { authorization: `Bearer ${this.#token}`, ...(body ? { 'content-type': 'application/json' } : {}) };
    const options = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS) };
    const response = await fetch(`${this.#hub}/api/devices${path}`, options).catch((error) => {
      throw new UserError(`Cannot reach the hub at ${this.#hub} (${error.cause?.code ?? error.message}).`);
    });
    const answer = await response.json().catch(() => null);
    if (response.ok) return answer;
    const hint = response.status === 401 ? 'Give another token with --token-file FILE, or set CLI_API_TOKEN.' : undefined;
    throw new UserError(`The hub answered ${response.status}: ${answer?.error ?? response.statusText}`, hint);
  }
}
