/** The call `spawnSession`: starts a session on this machine, in a worktree when asked for, or takes up an earlier one. */

import { randomUUID } from 'node:crypto';
import { realpath, stat } from 'node:fs/promises';
import { PathError, expandHome, isInside } from './paths.mjs';
import { SessionProcesses } from './processes.mjs';
import { openWorktree } from './worktree.mjs';

/** How long a call may take until its session is up: less than the 30 s the hub waits. */
const READY_MS = 25_000;

const MAX_SESSIONS = 64;

const WORD = /^[A-Za-z0-9_.-]{1,128}$/;

export class Spawner {
  /**
   * The session of this process itself, which a resume may ask for as well.
   * @type {import('./processes.mjs').Served | null}
   */
  own = null;
  /** Called with the id of a session whose process ended without having been asked to. */
  onDied = (_sessionId) => {};

  /**
   * @param {{directories: string[], hub: string, token: string, home: string, machineId: string, bridged?: boolean,
   *   verbose?: boolean, log: {info: (text: string) => void, warn: (text: string) => void}, readyMs?: number}} options
   *   `directories`: resolved paths inside which sessions may be started
   */
  constructor({ directories, hub, token, home, machineId, bridged = false, verbose = false, log, readyMs = READY_MS }) {
    Object.assign(this, { directories, hub, machineId, bridged, verbose, readyMs });
    this.processes = new SessionProcesses({ token, home, verbose, log, onDied: (id) => this.onDied(id) });
  }

  /**
   * @param {{directory?: string, agent?: string, model?: string, yolo?: boolean, sessionType?: string,
   *   worktreeName?: string, sessionId?: string, resumeSessionId?: string}} params `sessionId` and `resumeSessionId`: the
   *   session at the hub, and the agent's own id of it, that are to go on
   * @returns {Promise<{success: boolean, sessionId?: string, error?: string}>}
   * @throws {Error} with a sentence for the person who asked
   */
  async spawn({ directory, agent = 'alpha', sessionType = 'simple', worktreeName, ...rest } = {}) {
    const until = Date.now() + this.readyMs;
    check(typeof agent === 'string' && WORD.test(agent) && agent.length <= 64, '"agent" must be one word.');
    check(['simple', 'worktree'].includes(sessionType), `There are sessions of type "simple" and "worktree" only.`);
    check(this.processes.size < MAX_SESSIONS, `This machine already runs ${MAX_SESSIONS} sessions.`);
    const served = await this.#directory(directory);
    const { sessionId, resumeSessionId } = rest;
    if (sessionId !== undefined || resumeSessionId !== undefined) {
      return this.#resume({ directory: served, agent, sessionId, resumeSessionId }, until);
    }
    const place =
      sessionType === 'simple' ? served : await this.#worktree({ directory: served, name: worktreeName }, until);
    return this.#start({ directory: place, agent, ...rest }, until);
  }

  /** Ends all sessions that were started from here. */
  end() {
    return this.processes.end();
  }

  #start({ directory, agent, model, yolo = false }, until) {
    check(model === undefined || typeof model === 'string', '"model" must be a string.');
    // A tag of its own: with the directory as its tag it would take over the session that is there already.
    const args = [`--tag=${directory}#${randomUUID()}`];
    if (model !== undefined) args.push(`--model=${model}`);
    if (yolo === true) args.push('--auto-approve');
    return this.#run(directory, agent, args, until);
  }

  /** A session that is served from here already is what was asked for; one that is about to end must end first. */
  async #resume({ directory, agent, sessionId, resumeSessionId }, until) {
    const isWord = (id) => typeof id === 'string' && WORD.test(id);
    check(isWord(sessionId), '"sessionId" must name the session to resume.');
    check(isWord(resumeSessionId), '"resumeSessionId" must be the id that the agent had given to the session.');
    for (let served = this.#serving(sessionId); served; served = this.#serving(sessionId)) {
      if (!served.ending) return served.answer;
      await within(served.gone, until, 'The session is still about to end. Try again in a moment.');
    }
    return this.#run(directory, agent, [`--session-id=${sessionId}`, `--resume=${resumeSessionId}`], until, sessionId);
  }

  #serving(id) {
    return this.own?.id === id ? this.own : this.processes.serving(id);
  }

  #worktree({ directory, name }, until) {
    const opened = openWorktree({ directory, directories: this.directories, name });
    // It goes on being made then, and is there when it is asked for again.
    return within(opened, until - this.readyMs / 4, 'The worktree is still being made. Try again in a minute.');
  }

  #run(directory, agent, args, until, id) {
    const common = [`--dir=${directory}`, `--hub=${this.hub}`, `--flavor=${agent}`, `--machine-id=${this.machineId}`];
    if (this.bridged) common.push('--bridged');
    if (this.verbose) common.push('--verbose');
    return this.processes.start([...common, '--no-machine', ...args], { readyMs: until - Date.now(), id });
  }

  async #directory(directory) {
    check(typeof directory === 'string' && directory !== '', '"directory" is missing.');
    check(!directory.includes('\0'), '"directory" must not contain NUL.');
    const found = await realpath(expandHome(directory, this.directories[0])).catch(() => null);
    check(found !== null, `There is no directory ${directory} on this machine.`);
    const allowed = this.directories.some((served) => isInside(served, found));
    check(allowed, `${directory} is outside the directories this machine serves; start it with --allow-dir for more.`);
    check((await stat(found)).isDirectory(), `${directory} is not a directory.`);
    return found;
  }
}

function check(right, message) {
  if (!right) throw new PathError(message);
}

/** Settled like `promise`, or failed with a message when that takes until later than `until`. */
async function within(promise, until, message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), Math.max(0, until - Date.now()));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
