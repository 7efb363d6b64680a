/** Spawned sessions. Each spawned session is a child process, which ends when this process ends. */

import { fork } from 'node:child_process';

/** The variable that tells a process that a runner started it. */
export const RUNNER_VARIABLE = 'SESSION_GATEWAY_RUNNER';

/** Time between SIGTERM and SIGKILL. */
const KILL_DELAY_MS = 15_000;

/**
 * A session served by this machine.
 * @typedef {object} ServedSession
 * @property {string | undefined} id undefined until the hub has assigned an id
 * @property {boolean} isEnding whether the session handles no further messages and will end
 * @property {Promise<{success: boolean, sessionId?: string, error?: string}>} started the result of the start
 * @property {Promise<void>} ended
 */

/**
 * A message of a session's process.
 * @typedef {{type: 'opened' | 'session' | 'failed' | 'ending', sessionId?: string, error?: string}} RunnerMessage `opened`: the hub has the
 *   session; `session`: the process serves the session
 */

export class SessionProcesses {
  /** @type {Map<import('node:child_process').ChildProcess, ServedSession>} */
  #running = new Map();

  /**
   * @param {{program: import('./program.mjs').Program, token: string, namespace?: string, home: string, verbose?: boolean,
   *   onCrash?: (sessionId: string) => void, log: {info: (text: string) => void, warn: (text: string) => void}}} options
   *   `onCrash`: called when a session's process has ended unexpectedly
   */
  constructor({ program, token, namespace, home, verbose = false, onCrash = () => {}, log }) {
    this.program = program;
    this.token = token;
    this.namespace = namespace;
    this.home = home;
    this.verbose = verbose;
    this.onCrash = onCrash;
    this.log = log;
  }

  /** Number of running processes. */
  get size() {
    return this.#running.size;
  }

  /** @returns {ServedSession | undefined} */
  find(id) {
    return [...this.#running.values()].find((session) => session.id === id);
  }

  /**
   * Starts a process.
   * @param {string[]} args the command line of the process
   * @param {{readyTimeoutMs: number, canServeLater?: boolean, id?: string, detached?: boolean}} options `readyTimeoutMs`: time limit until
   *   the process serves its session; `canServeLater`: whether the start succeeds at the time limit if the hub has the session; `id`: the
   *   session to resume; `detached`: starts a new process group
   * @returns {ServedSession['started']}
   */
  start(args, { readyTimeoutMs, canServeLater = false, id, detached = false }) {
    const env = { ...process.env, [this.program.homeVariable]: this.home, [RUNNER_VARIABLE]: '1' };
    const child = fork(this.program.entry, args, { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [], detached });
    // The token is sent as an IPC message, because other programs can read a process's arguments and environment. Send errors are
    // ignored, because the event `error` of a process that could not be started is handled below.
    child.send({ type: 'token', token: this.token, namespace: this.namespace }, () => {});
    /** @type {ServedSession} */
    const session = { id, isEnding: false, started: undefined, ended: undefined };
    this.#running.set(child, session);
    let stderrTail = '';
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      stderrTail = (stderrTail + text).slice(-2000);
      if (this.verbose) process.stderr.write(text);
    });
    session.ended = new Promise((resolve) => {
      child.once('error', resolve);
      child.once('close', resolve);
    }).then(() => {
      this.#running.delete(child);
    });
    let isOpened = false;
    let hasStarted = false;
    session.started = new Promise((resolve) => {
      const fail = (error) => {
        session.isEnding = true;
        resolve({ success: false, error });
      };
      const succeed = () => {
        hasStarted = true;
        resolve({ success: true, sessionId: session.id });
      };
      const timer = setTimeout(() => {
        if (canServeLater && isOpened) {
          this.log.info(`session ${session.id} is still starting (process ${child.pid})`);
          return succeed();
        }
        fail(`The new session did not start within ${Math.ceil(readyTimeoutMs / 1000)} s.`);
        stop(child, session);
      }, readyTimeoutMs);
      child.once('error', (error) => fail(`Cannot start a process: ${error.message}`));
      child.once('close', (code, signal) => {
        const ending = `(${signal ?? `exit code ${code}`}). ${stderrTail.trim().split('\n').pop()}`.trim();
        if (hasStarted) this.#handleEnd(child, session, ending);
        else fail(`The new session ended before it was open ${ending}`);
      });
      child.on('message', (/** @type {RunnerMessage} */ message) => {
        if (message?.type === 'failed') {
          if (hasStarted) this.log.warn(`session ${session.id} did not start: ${message.error}`);
          fail(message.error);
        }
        if (message?.type === 'ending') session.isEnding = true;
        if (message?.type === 'opened') {
          isOpened = true;
          session.id = message.sessionId;
        }
        if (message?.type !== 'session') return;
        clearTimeout(timer);
        session.id = message.sessionId;
        this.log.info(`session ${session.id} started (process ${child.pid})`);
        succeed();
      });
      session.ended.then(() => clearTimeout(timer));
    });
    return session.started;
  }

  /** @param {string} ending the exit code or signal, and the last line on standard error */
  #handleEnd(child, session, ending) {
    if (session.isEnding) return this.log.info(`session ${session.id} ended (process ${child.pid})`);
    this.log.warn(`session ${session.id} crashed (process ${child.pid}) ${ending}`);
    this.onCrash(session.id);
  }

  /** Ends all processes and waits until they have exited. */
  async end() {
    await Promise.all([...this.#running].map(([child, session]) => stop(child, session)));
  }
}

/** Ends a process with SIGTERM, so that the process can end its agent, and later with SIGKILL. Resolves when the process has exited. */
async function stop(child, session) {
  session.isEnding = true;
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), KILL_DELAY_MS);
  await session.ended;
  clearTimeout(timer);
}
