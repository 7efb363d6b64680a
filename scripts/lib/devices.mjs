// A client of the hub's interface for devices.

import { requestHub } from './hub-request.mjs';

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
  #access;

  /** @param {{hub: string, token: string}} access `hub`: the address without a trailing slash */
  constructor(access) {
    this.#access = access;
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

  /** @param {string} method @param {string} path @param {object} [body] */
  #call(method, path, body) {
    return requestHub(this.#access, method, `/api/devices${path}`, body);
  }
}
