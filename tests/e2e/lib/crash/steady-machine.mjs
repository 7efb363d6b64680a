/** A machine that comes back by itself and gives signs of life. */

import { Cli } from '../cli.mjs';

/** The longest pause between two signs of life, in milliseconds. */
const SIGN_MS = 1_000;

export class SteadyMachine {
  /** @param {import('./storm.mjs').Storm} storm @param {{name: string, namespace: string, machine: any}} options */
  constructor(storm, { name, namespace, machine }) {
    Object.assign(this, { storm, name, machine, random: storm.random.for(name), signal: storm.signal(name) });
    this.cli = new Cli(storm.hub, { namespace, way: 'header', auth: { machineId: machine.id }, reconnection: true });
    this.cli.socket.on('connect', () => {
      this.signal.give();
      this.#sign();
    });
  }

  async connect() {
    await this.cli.connect();
  }

  /** Settled when it is connected. */
  connected() {
    return this.signal.until(() => this.cli.socket.connected, 'to be connected');
  }

  /** Gives signs of life until the calm. */
  async run() {
    await this.storm.repeat(this.random, SIGN_MS, () => this.#sign());
  }

  close() {
    this.cli.close();
  }

  async #sign() {
    if (!this.cli.socket.connected) return;
    try {
      await this.cli.ask('machine-alive', { machineId: this.machine.id, time: Date.now() });
    } catch {
      this.storm.count('signs of life without an answer');
    }
  }
}
