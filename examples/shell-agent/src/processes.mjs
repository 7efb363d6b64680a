/** Sessions that run as processes of their own, started by this one. None outlives it. */

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ENTRY = fileURLToPath(new URL('../index.mjs', import.meta.url));

/** How long a process may take to end when it is asked to. */
const END_MS = 15_000;

/**
 * A session that is served from here.
 * @typedef {object} Served
 * @property {string | undefined} id the session's; undefined until the hub has given one
 * @property {boolean} ending it is about to end, and serves no more
 * @property {Promise<{success: boolean, sessionId?: string, error?: string}>} answer whether it came up
 * @property {Promise<void>} gone settled when it has ended
 */

export class SessionProcesses {
  /** @type {Map<import('node:child_process').ChildProcess, Served>} */
  #running = new Map();

  /**
   * @param {{token: string, home: string, verbose?: boolean, onDied?: (sessionId: string) => void,
   *   log: {info: (text: string) => void, warn: (text: string) => void}}} options `onDied`: the process of this session
   *   ended without having been asked to, and could not tell the hub
   */
  constructor({ token, home, verbose = false, onDied = () => {}, log }) {
    Object.assign(this, { token, home, verbose, onDied, log });
  }

  /** Number of processes that run. */
  get size() {
    return this.#running.size;
  }

  /** The one that serves a session. @returns {Served | undefined} */
  serving(id) {
    return [...this.#running.values()].find((served) => served.id === id);
  }

  /**
   * Starts a process.
   * @param {string[]} args its command line
   * @param {{readyMs: number, id?: string}} options `readyMs`: how long it may take until its session is up; `id`: the
   *   session that it takes up
   * @returns {Served['answer']}
   */
  start(args, { readyMs, id }) {
    // The token goes through the environment: arguments are visible to every user of the machine.
    const env = { ...process.env, CLI_API_TOKEN: this.token, SHELL_AGENT_HOME: this.home };
    const child = fork(ENTRY, args, { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [] });
    const served = { id, ending: false };
    this.#running.set(child, served);
    let last = '';
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      last = (last + text).slice(-2000);
      if (this.verbose) process.stderr.write(text);
    });
    served.gone = new Promise((resolve) => {
      child.once('error', resolve);
      child.once('close', resolve);
    }).then(() => {
      this.#running.delete(child);
    });
    let up = false;
    served.answer = new Promise((resolve) => {
      const fail = (error) => {
        served.ending = true;
        resolve({ success: false, error });
      };
      const timer = setTimeout(() => {
        fail(`The new session was not up within ${Math.ceil(readyMs / 1000)} s.`);
        child.kill('SIGKILL');
      }, readyMs);
      child.once('error', (error) => fail(`Cannot start a process: ${error.message}`));
      child.once('close', (code, signal) => {
        const how = `(${signal ?? `exit code ${code}`}). ${last.trim().split('\n').pop()}`.trim();
        if (up) this.#ended(child, served, how);
        else fail(`The new session ended at once ${how}`);
      });
      child.on('message', (message) => {
        if (message?.type === 'failed') fail(message.error);
        if (message?.type === 'ending') served.ending = true;
        if (message?.type !== 'session') return;
        clearTimeout(timer);
        up = true;
        served.id = message.sessionId;
        this.log.info(`session ${served.id} started (process ${child.pid})`);
        resolve({ success: true, sessionId: served.id });
      });
      served.gone.then(() => clearTimeout(timer));
    });
    return served.answer;
  }

  /** A session that was up is over. @param {string} how its process ended, and what that said last */
  #ended(child, served, how) {
    if (served.ending) return this.log.info(`session ${served.id} ended (process ${child.pid})`);
    this.log.warn(`session ${served.id} died (process ${child.pid}) ${how}`);
    this.onDied(served.id);
  }

  /** Ends all processes and waits for them. */
  async end() {
    await Promise.all(
      [...this.#running].map(async ([child, served]) => {
        served.ending = true;
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), END_MS);
        await served.gone;
        clearTimeout(timer);
      }),
    );
  }
}
