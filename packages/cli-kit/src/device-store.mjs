/** The tokens that this computer received by pairing: one file for each hub, readable by its owner only. */

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * @typedef {object} StoredDevice
 * @property {string} hub the address of the hub
 * @property {string} token
 * @property {string} namespace that the token opens
 * @property {{id: string, name: string, kind: string}} device
 */

export class DeviceStore {
  /** @param {{home: string, hub: string}} options `home`: the folder of the state */
  constructor({ home, hub }) {
    const key = createHash('sha256').update(hub).digest('hex').slice(0, 32);
    this.hub = hub;
    this.file = path.resolve(home, 'devices', `${key}.json`);
  }

  /** @returns {StoredDevice | undefined} undefined if there is none, or the file is damaged */
  load() {
    try {
      const { hub, token, namespace, device } = JSON.parse(readFileSync(this.file, 'utf8'));
      return hub === this.hub && typeof token === 'string' && typeof namespace === 'string' ? { hub, token, namespace, device } : undefined;
    } catch {
      return undefined;
    }
  }

  /** @param {Omit<StoredDevice, 'hub'>} granted */
  save({ token, namespace, device }) {
    mkdirSync(path.dirname(this.file), { recursive: true, mode: 0o700 });
    const temporary = `${this.file}.${process.pid}`;
    writeFileSync(temporary, `${JSON.stringify({ hub: this.hub, token, namespace, device })}\n`, { mode: 0o600 });
    renameSync(temporary, this.file);
  }

  /** Removes a token that the hub refused, unless another process has replaced it. @param {string} token */
  remove(token) {
    if (this.load()?.token === token) rmSync(this.file, { force: true });
  }
}
