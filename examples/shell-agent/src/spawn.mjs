/** Starts further sessions: each is a process of its own, which lives as long as this one at most. */

import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { realpath, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expandHome, isInside } from './paths.mjs';

const ENTRY = fileURLToPath(new URL('../index.mjs', import.meta.url));

/** How long a new process may take until its session is up: less than the 30 s the hub waits. */
const READY_MS = 25_000;

const MAX_CHILDREN = 64;

export class Spawner {
  #children = new Set();

  /**
   * @param {{directories: string[], hub: string, token: string, home: string, machineId: string, bridged?: boolean,
   *   verbose?: boolean, log: {info: (text: string) => void, debug: (text: string) => void}, readyMs?: number}} options
   *   `directories`: resolved paths inside which sessions may be started
   */
  constructor({ directories, hub, token, home, machineId, bridged = false, verbose = false, log, readyMs = READY_MS }) {
    Object.assign(this, { directories, hub, token, home, machineId, bridged, verbose, log, readyMs });
  }

  /** Number of sessions that run. */
  get size() {
    return this.#children.size;
  }

  /**
   * The call `spawnSession`.
   * @param {{directory?: string, agent?: string, model?: string, yolo?: boolean, sessionType?: string,
   *   resumeSessionId?: string}} params
   * @returns {Promise<{success: boolean, sessionId?: string, error?: string}>}
   */
  async spawn({ directory, agent = 'alpha', model, yolo = false, sessionType = 'simple', resumeSessionId } = {}) {
    const refuse = (error) => ({ success: false, error });
    if (sessionType !== 'simple')
      return refuse(`This machine starts sessions of type "simple" only, not "${sessionType}".`);
    if (resumeSessionId !== undefined) return refuse('This machine cannot resume an earlier session; start a new one.');
    if (typeof directory !== 'string' || directory === '') return refuse('"directory" is missing.');
    if (typeof agent !== 'string' || !/^[A-Za-z0-9_.-]{1,64}$/.test(agent)) return refuse('"agent" must be one word.');
    if (model !== undefined && typeof model !== 'string') return refuse('"model" must be a string.');
    if (this.#children.size >= MAX_CHILDREN) return refuse(`This machine already runs ${MAX_CHILDREN} sessions.`);
    const root = await this.#directory(directory);
    if (root.error) return refuse(root.error);
    const args = [
      `--dir=${root.path}`,
      `--hub=${this.hub}`,
      `--flavor=${agent}`,
      `--machine-id=${this.machineId}`,
      '--no-machine',
    ];
    // A tag of its own: with the directory as its tag it would take over the session that is there already.
    args.push(`--tag=${root.path}#${randomUUID()}`);
    if (model !== undefined) args.push(`--model=${model}`);
    if (yolo === true) args.push('--auto-approve');
    if (this.bridged) args.push('--bridged');
    if (this.verbose) args.push('--verbose');
    return this.#start(args);
  }

  /** Ends all sessions and waits for them. */
  async end() {
    await Promise.all(
      [...this.#children].map((child) => {
        const gone = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
        return gone.then(() => clearTimeout(timer));
      }),
    );
  }

  async #directory(directory) {
    if (directory.includes('\0')) return { error: '"directory" must not contain NUL.' };
    const path = await realpath(expandHome(directory, this.directories[0])).catch(() => null);
    if (path === null) return { error: `There is no directory ${directory} on this machine.` };
    if (!this.directories.some((allowed) => isInside(allowed, path))) {
      return {
        error: `${directory} is outside the directories this machine serves; start it with --allow-dir for more.`,
      };
    }
    if (!(await stat(path)).isDirectory()) return { error: `${directory} is not a directory.` };
    return { path };
  }

  #start(args) {
    // The token goes through the environment: arguments are visible to every user of the machine.
    const env = { ...process.env, CLI_API_TOKEN: this.token, SHELL_AGENT_HOME: this.home };
    const child = fork(ENTRY, args, { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [] });
    this.#children.add(child);
    let last = '';
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      last = (last + text).slice(-2000);
      if (this.verbose) process.stderr.write(text);
    });
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        resolve({ success: false, error: `The new session was not up within ${this.readyMs / 1000} s.` });
        child.kill('SIGKILL');
      }, this.readyMs);
      child.once('error', (error) => {
        this.#children.delete(child);
        clearTimeout(timer);
        resolve({ success: false, error: `Cannot start a process: ${error.message}` });
      });
      child.on('message', (message) => {
        if (message?.type !== 'session') return;
        clearTimeout(timer);
        this.log.info(`session ${message.sessionId} started (process ${child.pid})`);
        resolve({ success: true, sessionId: message.sessionId });
      });
      child.once('close', (code) => {
        this.#children.delete(child);
        clearTimeout(timer);
        this.log.debug(`process ${child.pid} ended`);
        this.onEnd?.();
        const why = last.trim().split('\n').pop();
        resolve({ success: false, error: `The new session ended at once (exit code ${code}). ${why}`.trim() });
      });
    });
  }
}
