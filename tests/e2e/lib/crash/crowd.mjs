/** A session with everybody who works on it: CLIs, writers, who answers its requests, callers, listeners. */

import { Listener } from './listener.mjs';
import { SteadyCli } from './steady-cli.mjs';
import { Updater } from './updater.mjs';
import { Approver, Caller, Writer } from './web-clients.mjs';

/** The request for permission that an update of the state brings, or nothing: every second one does. */
export const requestOf = (mark) => (Number(mark.split('-').at(-1)) % 2 === 0 ? `r-${mark}` : undefined);

function withRequest(state, mark) {
  const id = requestOf(mark);
  const asked = id === undefined ? {} : { [id]: { tool: 'shell', arguments: { command: mark } } };
  return { ...state, requests: { ...state.requests, ...asked } };
}

export class Crowd {
  /**
   * @param {import('./storm.mjs').Storm} storm
   * @param {string} namespace
   * @param {any} session
   * @param {{ways: import('../cli.mjs').Way[], channels: ('sse' | 'socket')[], writers?: number}} options
   */
  constructor(storm, namespace, session, { ways, channels, writers = 1 }) {
    const named = (kind, n) => ({ name: `${session.tag}-${kind}-${n}`, namespace, session });
    Object.assign(this, { storm, namespace, session, web: storm.hub.web(namespace) });
    this.clis = ways.map((way, n) => new SteadyCli(storm, { ...named('cli', n), way, leads: n === 0 }));
    this.writers = Array.from({ length: writers }, (_, n) => new Writer(storm, named('writer', n)));
    this.approver = new Approver(storm, named('approver', 0));
    this.callers = [new Caller(storm, named('caller', 0))];
    this.listeners = channels.map((channel, n) => new Listener(storm, { ...named('listener', n), channel, all: n > 0 }));
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

  /** Everybody comes; settled when the session is alive. */
  async connect() {
    await Promise.all([...this.clis, ...this.listeners].map((one) => one.connect()));
  }

  /** Everybody works until the calm; settled when all that was begun is finished. */
  async run() {
    const listening = this.listeners.map((listener) => listener.run());
    const workers = [...this.clis, ...this.writers, ...this.callers, ...this.metadata, ...this.state, this.approver];
    await Promise.all(workers.map((one) => one.run()));
    await this.approver.answerAll();
    const last = (await this.storm.persist(() => this.web.get(`/api/sessions/${this.session.id}`))).body.session.seq;
    await Promise.all([...this.clis, ...this.listeners].map((one) => one.knows(last)));
    this.listeners.forEach((listener) => listener.close());
    await Promise.all(listening);
  }

  close() {
    for (const one of [...this.clis, ...this.listeners]) one.close();
  }
}
