/** A machine that reconnects and sends keep-alives. */

import { Cli } from '../../../../scripts/product/clients/cli.mjs';

/** The longest pause between two keep-alives. */
const KEEP_ALIVE_PAUSE_MS = 1_000;

export class ReliableMachine {
  /** @param {import('./load-test.mjs').LoadTest} loadTest @param {{name: string, namespace: string, machine: any}} options */
  constructor(loadTest, { name, namespace, machine }) {
    this.loadTest = loadTest;
    this.name = name;
    this.machine = machine;
    this.random = loadTest.random.fork(name);
    this.signal = loadTest.signal(name);
    this.cli = new Cli(loadTest.hub, { namespace, tokenIn: 'header', auth: { machineId: machine.id }, reconnection: true });
    this.cli.socket.on('connect', () => {
      this.signal.notify();
      this.#keepAlive();
    });
  }

  async connect() {
    await this.cli.connect();
  }

  waitUntilConnected() {
    return this.signal.waitUntil(() => this.cli.socket.connected, 'to be connected');
  }

  /** Sends keep-alives until the test is ending. */
  async run() {
    await this.loadTest.repeat(this.random, KEEP_ALIVE_PAUSE_MS, () => this.#keepAlive());
  }

  close() {
    this.cli.close();
  }

  async #keepAlive() {
    if (!this.cli.socket.connected) return;
    try {
      await this.cli.emitWithAck('machine-alive', { machineId: this.machine.id, time: Date.now() });
    } catch {
      this.loadTest.count('keep-alives without an acknowledgement');
    }
  }
}
