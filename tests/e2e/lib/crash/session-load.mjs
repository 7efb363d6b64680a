/** The clients of one session: CLIs, writers, an approver, a caller and listeners. */

import { Listener } from './listener.mjs';
import { ReliableCli } from './reliable-cli.mjs';
import { Updater } from './updater.mjs';
import { Approver, Caller, Writer } from './web-clients.mjs';

/** The id of the permission request that a state update adds. Every second update adds one. */
export const requestOf = (mark) => (Number(mark.split('-').at(-1)) % 2 === 0 ? `r-${mark}` : undefined);

function withRequest(state, mark) {
  const id = requestOf(mark);
  const added = id === undefined ? {} : { [id]: { tool: 'shell', arguments: { command: mark } } };
  return { ...state, requests: { ...state.requests, ...added } };
}

export class SessionLoad {
  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {string} namespace
   * @param {any} session
   * @param {{tokensIn: import('../cli.mjs').TokenIn[], channels: ('stream' | 'socket')[], writers?: number}} options
   */
  constructor(loadTest, namespace, session, { tokensIn, channels, writers = 1 }) {
    const named = (kind, n) => ({ name: `${session.tag}-${kind}-${n}`, namespace, session });
    Object.assign(this, { loadTest, namespace, session, web: loadTest.hub.web(namespace) });
    this.clis = tokensIn.map((tokenIn, n) => new ReliableCli(loadTest, { ...named('cli', n), tokenIn, isLeader: n === 0 }));
    this.writers = Array.from({ length: writers }, (_, n) => new Writer(loadTest, named('writer', n)));
    this.approver = new Approver(loadTest, named('approver', 0));
    this.callers = [new Caller(loadTest, named('caller', 0))];
    this.listeners = channels.map((channel, n) => new Listener(loadTest, { ...named('listener', n), channel, all: n > 0 }));
    const subject = { sid: session.id };
    this.metadata = this.clis.map((cli) => {
      const start = { version: session.metadataVersion, value: session.metadata };
      return new Updater(cli, { event: 'update-metadata', subject, key: 'metadata', ...start });
    });
    this.state = this.clis.map((cli) => {
      const start = { version: session.agentStateVersion, value: session.agentState };
      return new Updater(cli, { event: 'update-state', subject, key: 'agentState', change: withRequest, ...start });
    });
  }

  /** Connects all clients. Resolves when the session is active. */
  async connect() {
    await Promise.all([...this.clis, ...this.listeners].map((client) => client.connect()));
  }

  /** Runs all clients until the test is ending and everything they started is finished. */
  async run() {
    const listening = this.listeners.map((listener) => listener.run());
    const workers = [...this.clis, ...this.writers, ...this.callers, ...this.metadata, ...this.state, this.approver];
    await Promise.all(workers.map((client) => client.run()));
    await this.approver.answerAll();
    const last = (await this.loadTest.retry(() => this.web.get(`/api/sessions/${this.session.id}`))).body.session.seq;
    await Promise.all([...this.clis, ...this.listeners].map((client) => client.waitForMessages(last)));
    this.listeners.forEach((listener) => listener.close());
    await Promise.all(listening);
  }

  close() {
    for (const client of [...this.clis, ...this.listeners]) client.close();
  }
}
