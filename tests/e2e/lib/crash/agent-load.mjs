/** The example agent as a process, which gets one command after another and is sometimes killed. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isReady, startAgent } from '../agent.mjs';
import { eventually } from '../../../../scripts/lib/await.mjs';
import { temporaryFolder } from '../git.mjs';
import { Writer } from './web-clients.mjs';

/** The longest pause between two commands: about the time that the agent needs for a command. */
const PAUSE_MS = 200;

export class AgentLoad {
  /** How many times the agent was killed. */
  kills = 0;
  #process;

  /**
   * @param {import('./load-test.mjs').LoadTest} loadTest
   * @param {{after: (step: () => unknown) => void}} t
   * @param {{name: string, namespace: string}} options
   */
  constructor(loadTest, t, { name, namespace }) {
    this.loadTest = loadTest;
    this.t = t;
    this.name = name;
    this.namespace = namespace;
    this.web = loadTest.hub.web(namespace);
    this.dir = temporaryFolder(t);
    this.home = temporaryFolder(t);
  }

  /** Starts the agent. Resolves when its session is active. */
  async connect() {
    await this.#start();
    this.session = { id: this.#process.sessionId };
    const { name, namespace, session } = this;
    const text = (n) => `echo ${n} >> log`;
    this.writer = new Writer(this.loadTest, { name: `${name}-writer`, namespace, session, text, maxPauseMs: PAUSE_MS });
  }

  /** Sends commands until the test is ending, and waits until all commands are finished. */
  async run() {
    await this.writer.run();
    for (let done = 0; done < this.writer.sent.length; ) {
      const before = done;
      await eventually(async () => (done = await this.#countDone()) > before, `${this.name} to finish one more command`);
    }
  }

  /** Kills the process and starts it again. */
  async restart() {
    this.kills += 1;
    await this.#process.kill();
    await this.#start();
  }

  /** The numbers of the executed commands, from the log to which each command appends. */
  get executedCommands() {
    return readFileSync(path.join(this.dir, 'log'), 'utf8').trimEnd().split('\n').map(Number);
  }

  /** Returns the number of finished commands. */
  async #countDone() {
    const history = await this.web.readHistory(this.session.id);
    return history.filter((message) => isReady({ type: 'message-received', message })).length;
  }

  async #start() {
    const { dir, home, namespace } = this;
    this.#process = await startAgent(this.t, this.loadTest.hub, { dir, home, namespace, args: ['--auto-approve', '--no-machine'] });
  }
}
