/** The clients of one session: CLIs, writers, an approver, a caller and listeners. */

import { Listener } from './listener.mjs';
import { ReliableCli } from './reliable-cli.mjs';
import { Updater } from './updater.mjs';
import { Approver, Caller, Writer } from './web-clients.mjs';

/** Returns the id of the permission request that a state update adds. Every second update adds a request. */
export const requestIdOf = (mark) => (Number(mark.split('-').at(-1)) % 2 === 0 ? `r-${mark}` : undefined);

function withRequest(state, mark) {
  const id = requestIdOf(mark);
  const newRequest = id === undefined ? {} : { [id]: { tool: 'shell', arguments: { command: mark } } };
  return { ...state, requests: { ...state.requests, ...newRequest } };
}

export class SessionLoad {
  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {string} namespace
   * @param {any} session
   * @param {{tokensIn: import('../../../../scripts/product/clients/cli.mjs').TokenIn[], channels: ('stream' | 'socket')[], writers?: number}} options
   */
  constructor(loadTest, namespace, session, { tokensIn, channels, writers = 1 }) {
    const clientOptions = (kind, n) => ({ name: `${session.tag}-${kind}-${n}`, namespace, session });
    this.loadTest = loadTest;
    this.namespace = namespace;
    this.session = session;
    this.web = loadTest.hub.web(namespace);
    this.clis = tokensIn.map((tokenIn, n) => new ReliableCli(loadTest, { ...clientOptions('cli', n), tokenIn, isLeader: n === 0 }));
    this.writers = Array.from({ length: writers }, (_, n) => new Writer(loadTest, clientOptions('writer', n)));
    this.approver = new Approver(loadTest, clientOptions('approver', 0));
    this.callers = [new Caller(loadTest, clientOptions('caller', 0))];
    this.listeners = channels.map((channel, n) => new Listener(loadTest, { ...clientOptions('listener', n), channel, all: n > 0 }));
    const subject = { sid: session.id };
    this.metadataUpdaters = this.clis.map((cli) => {
      const initial = { version: session.metadataVersion, value: session.metadata };
      return new Updater(cli, { event: 'update-metadata', subject, key: 'metadata', ...initial });
    });
    this.stateUpdaters = this.clis.map((cli) => {
      const initial = { version: session.agentStateVersion, value: session.agentState };
      return new Updater(cli, { event: 'update-state', subject, key: 'agentState', change: withRequest, ...initial });
    });
  }

  /** Connects all clients. Resolves when the session is active. */
  async connect() {
    await Promise.all([...this.clis, ...this.listeners].map((client) => client.connect()));
  }

  /** Runs all clients until the test is ending, and waits until all their operations are finished. */
  async run() {
    const listening = this.listeners.map((listener) => listener.run());
    const workers = [...this.clis, ...this.writers, ...this.callers, ...this.metadataUpdaters, ...this.stateUpdaters, this.approver];
    await Promise.all(workers.map((client) => client.run()));
    await this.approver.answerAll();
    const lastSeq = (await this.loadTest.retry(() => this.web.get(`/api/sessions/${this.session.id}`))).body.session.seq;
    await Promise.all([...this.clis, ...this.listeners].map((client) => client.waitForMessages(lastSeq)));
    this.listeners.forEach((listener) => listener.close());
    await Promise.all(listening);
  }

  close() {
    for (const client of [...this.clis, ...this.listeners]) client.close();
  }
}
