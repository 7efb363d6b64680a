/**
 * The use of a session in the agent's own terminal program. `session-gateway-agent attach` asks for the session over a socket in the state
 * folder, and runs the program:
 *
 *     attach                                    this process
 *     {type: 'attach'}              ->          hands control to the terminal, and waits for the end of the turn
 *                                   <-          {type: 'waiting'} if a turn runs
 *                                               ends the agent, and records what its history has
 *                                   <-          {type: 'released', cwd, argv}, or {type: 'refused', error}
 *     {type: 'running', pid}        ->          saves the process id
 *                                   <-          {type: 'go'}: only now the process becomes the program
 *     {type: 'ended'}               ->          loads what was said meanwhile, and takes over
 *                                   <-          {type: 'taken', error?}
 *
 * The agent and the program never run at the same time, whichever process is killed. This process watches the program. If this process is
 * killed, the next process of the session finds the program in `state.saved.terminal`.
 */

import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { THIS_HOST, sharesProcesses } from 'session-gateway-cli-kit/lock';
import { inspectProcess, isRunning } from 'session-gateway-cli-kit/system-processes';

const POLL_INTERVAL_MS = 1000;

/** The extension of the socket, whose path otherwise equals the path of the session's state. */
export const SOCKET_EXTENSION = 'sock';

/** Longer paths of sockets are cut or refused by some systems. */
const MAX_SOCKET_PATH_BYTES = 103;

/** Reads one JSON object from each line of a connection. Resolves to null at the end of the connection. */
export function createReader(connection) {
  const lines = createInterface({ input: connection, crlfDelay: Infinity })[Symbol.asyncIterator]();
  return async () => {
    try {
      const { value, done } = await lines.next();
      return done ? null : JSON.parse(value);
    } catch {
      return null;
    }
  };
}

export const sendLine = (connection, message) => !connection.destroyed && connection.write(`${JSON.stringify(message)}\n`);

/** @typedef {{pid?: number, startTime?: string, host?: import('session-gateway-cli-kit/lock').Host}} Program without an id if it never ran */

export class TerminalUse {
  #server = null;
  #isInUse = false;
  #isClosed = false;
  #connections = new Set();
  /** Checks at once whether the program has ended. */
  #checkNow = () => {};

  /**
   * @param {{state: import('session-gateway-cli-kit/state').SessionState, save: (fields: object) => void,
   *   log: {debug: (text: string) => void}, whenIdle: () => Promise<unknown> | null,
   *   release: () => Promise<{cwd: string, argv: string[]}>, takeBack: () => Promise<void>,
   *   switchTo: (mode: 'local' | 'remote') => void}} dependencies
   *   - `save`: changes fields of `state.saved`
   *   - `whenIdle`: resolves at the end of the turn that runs; null if none does
   *   - `release`: ends the agent's process. Returns the command line of the program
   *   - `takeBack`: stores what was said in the program, and starts the agent
   */
  constructor({ state, save, log, whenIdle, release, takeBack, switchTo }) {
    this.state = state;
    this.save = save;
    this.log = log;
    this.whenIdle = whenIdle;
    this.release = release;
    this.takeBack = takeBack;
    this.switchTo = switchTo;
  }

  /** Whether the session is in use in a terminal, or is being handed over. */
  get isInUse() {
    return this.#isInUse;
  }

  /** Accepts requests of `attach`. */
  listen() {
    const path = this.state.pathFor(SOCKET_EXTENSION);
    if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES) return this.log.debug(`The path is too long for a socket: ${path}`);
    // This process holds the lock of the state, so no other process uses the socket.
    rmSync(path, { force: true });
    this.#server = createServer((connection) => this.#serve(connection));
    this.#server.on('error', (error) => this.log.debug(`cannot accept requests of attach: ${error.message}`));
    this.#server.listen(path);
    this.#server.unref();
  }

  /** Waits in the background for the end of a terminal program. An earlier process of the session handed the session to this program. */
  resume() {
    this.#isInUse = true;
    this.#waitAndTakeBack(this.state.saved.terminal).catch((error) => this.log.debug(error.message));
  }

  close() {
    this.#isClosed = true;
    this.#server?.close();
    for (const connection of this.#connections) connection.destroy();
    this.#checkNow();
  }

  async #serve(connection) {
    this.#connections.add(connection);
    connection.on('error', () => {});
    connection.once('close', () => this.#connections.delete(connection));
    const read = createReader(connection);
    const send = (message) => sendLine(connection, message);
    if ((await read())?.type !== 'attach') return connection.destroy();
    if (this.#isInUse) {
      send({ type: 'refused', error: 'The session is already in use in a terminal.' });
      return connection.end();
    }
    this.#isInUse = true;
    try {
      await this.#handOver(connection, read, send);
    } catch (error) {
      send({ type: 'refused', error: error.message });
    }
    connection.end();
  }

  async #handOver(connection, read, send) {
    this.switchTo('local');
    try {
      const idle = this.whenIdle();
      if (idle) {
        send({ type: 'waiting' });
        await Promise.race([idle, once(connection, 'close')]);
        if (connection.destroyed) throw new Error('The terminal was closed.');
      }
      const command = await this.release();
      this.save({ terminal: {} });
      send({ type: 'released', ...command });
    } catch (error) {
      this.#isInUse = false;
      if (!this.#isClosed) this.switchTo('remote');
      throw error;
    }
    const message = await read();
    const pid = message?.type === 'running' && Number.isInteger(message.pid) && message.pid > 0 ? message.pid : undefined;
    const program = pid === undefined ? {} : { pid, startTime: inspectProcess(pid).startTime ?? '', host: THIS_HOST };
    this.save({ terminal: program });
    send({ type: 'go' });
    read().then(() => this.#checkNow());
    const error = await this.#waitAndTakeBack(program);
    send({ type: 'taken', ...(error ? { error: error.message } : {}) });
  }

  /**
   * Waits for the end of the program, and takes over.
   * @param {Program} program
   * @returns {Promise<Error | null>} why the agent does not run again; the next message starts it
   */
  async #waitAndTakeBack(program) {
    await this.#untilEnded(program);
    if (this.#isClosed) return null;
    this.save({ terminal: undefined });
    const failure = await this.takeBack().then(
      () => null,
      (error) => error,
    );
    this.#isInUse = false;
    if (!this.#isClosed) this.switchTo('remote');
    return failure;
  }

  /**
   * Resolves when the program has ended, or when this process ends. A program of another computer or container counts as ended: its host
   * has released the lock of the session, or the user has deleted the lock.
   * @param {Program} program
   */
  #untilEnded({ pid, startTime, host = THIS_HOST }) {
    const isVisible = pid !== undefined && sharesProcesses(host);
    return new Promise((resolve) => {
      const check = () => {
        if (!this.#isClosed && isVisible && isRunning(pid, startTime)) return;
        clearInterval(timer);
        resolve(undefined);
      };
      const timer = setInterval(check, POLL_INTERVAL_MS);
      this.#checkNow = check;
      check();
    });
  }
}
