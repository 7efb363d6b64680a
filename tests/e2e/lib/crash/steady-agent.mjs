/** The example agent as a process of its own: it is told one command after the other, and killed now and then itself. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isReady, startAgent } from '../agent.mjs';
import { eventually } from '../await.mjs';
import { temporaryFolder } from '../git.mjs';
import { SILENCE_MS } from './storm.mjs';
import { Writer } from './web-clients.mjs';

/** The longest pause between two commands, in milliseconds: about as long as the agent takes for one. */
const PAUSE_MS = 200;

export class SteadyAgent {
  /** How often it was killed. */
  kills = 0;
  #process;

  /**
   * @param {import('./storm.mjs').Storm} storm
   * @param {{after: (step: () => unknown) => void}} t
   * @param {{name: string, namespace: string}} options
   */
  constructor(storm, t, { name, namespace }) {
    Object.assign(this, { storm, t, name, namespace, web: storm.hub.web(namespace) });
    this.dir = temporaryFolder(t);
    this.home = temporaryFolder(t);
  }

  /** Settled when it runs and the session is alive. */
  async connect() {
    await this.#start();
    this.session = { id: this.#process.sessionId };
    const { name, namespace, session } = this;
    const text = (n) => `echo ${n} >> log`;
    this.writer = new Writer(this.storm, { name: `${name}-writer`, namespace, session, text, pauseMs: PAUSE_MS });
  }

  /** Is told commands until the calm; settled when it has done with all of them. */
  async run() {
    await this.writer.run();
    for (let done = 0; done < this.writer.sent.length; ) {
      const before = done;
      await eventually(async () => (done = await this.#done()) > before, `${this.name} to be done with one more`, SILENCE_MS);
    }
  }

  /** Kills the process in the middle of what it does; settled when another one runs. */
  async restart() {
    this.kills += 1;
    await this.#process.kill();
    await this.#start();
  }

  /** The commands that ran, as they left their marks. */
  get ran() {
    return readFileSync(path.join(this.dir, 'log'), 'utf8').trimEnd().split('\n').map(Number);
  }

  /** How many commands it is done with. */
  async #done() {
    const history = await this.web.history(this.session.id);
    return history.filter((message) => isReady({ type: 'message-received', message })).length;
  }

  async #start() {
    const { dir, home, namespace } = this;
    this.#process = await startAgent(this.t, this.storm.hub, { dir, home, namespace, args: ['--auto-approve', '--no-machine'] });
  }
}
