/** The RPC `spawnSession`: starts a session on this machine, optionally in a new worktree, or resumes a session. */

import { randomUUID } from 'node:crypto';
import { PathError, findServedDirectory } from './paths.mjs';
import { SessionProcesses } from './processes.mjs';
import { TrustedFolders } from './trust.mjs';
import { openWorktree } from './worktree.mjs';

/**
 * Time limit of a start: less than the hub's limit of 30 s for an RPC. On a slow computer, a session that is open at the hub continues to
 * start.
 */
const READY_TIMEOUT_MS = 25_000;

const MAX_SESSIONS = 64;

const WORD = /^[A-Za-z0-9_.-]{1,128}$/;

export class Spawner {
  /**
   * The session that this process itself serves, which can be resumed like a spawned session.
   * @type {import('./processes.mjs').ServedSession | null}
   */
  ownSession = null;
  /** Called with the id of a session when its process has ended unexpectedly. */
  onCrash = (_sessionId) => {};

  /**
   * @param {import('./app.mjs').AppOptions & {namespace: string, directories: string[], machineId: string}} options
   *   `directories`: resolved paths of the served directories
   */
  constructor(options) {
    const {
      directories,
      program,
      hub,
      token,
      namespace,
      home,
      machineId,
      bridged = false,
      verbose = false,
      log,
      readyTimeoutMs = READY_TIMEOUT_MS,
    } = options;
    this.options = options;
    this.directories = directories;
    this.program = program;
    this.hub = hub;
    this.machineId = machineId;
    this.bridged = bridged;
    this.verbose = verbose;
    this.readyTimeoutMs = readyTimeoutMs;
    this.trusted = program.runsFolderCode ? new TrustedFolders(home) : null;
    this.processes = new SessionProcesses({ program, token, namespace, home, verbose, log, onCrash: (id) => this.onCrash(id) });
  }

  /**
   * @param {{directory?: string, agent?: string, model?: string, options?: Record<string, string | boolean>, yolo?: boolean,
   *   sessionType?: string, worktreeName?: string, branch?: string, sessionId?: string, resumeSessionId?: string, trust?: boolean}} params
   *   `options`: the values of the agent's options by id; `branch`: the branch from which the worktree is created; `sessionId` and
   *   `resumeSessionId`: the hub's and the agent's id of a session to resume; `trust`: whether the user trusts the directory
   * @param {string[]} [startArgs] more arguments for the process of a new session
   * @returns {Promise<{success: boolean, sessionId?: string, error?: string}>}
   * @throws {Error} whose message is sent to the web client
   */
  async spawn(
    {
      directory,
      agent = this.program.defaultAgent(this.options),
      sessionType = 'simple',
      worktreeName,
      branch,
      trust,
      ...sessionParams
    } = {},
    startArgs = [],
  ) {
    const deadline = Date.now() + this.readyTimeoutMs;
    check(['simple', 'worktree'].includes(sessionType), `"sessionType" must be "simple" or "worktree".`);
    check(branch === undefined || sessionType === 'worktree', '"branch" needs the "sessionType" "worktree".');
    const { resolved, agentArgs } = await this.#prepare(directory, agent, trust);
    const { sessionId, resumeSessionId } = sessionParams;
    if (sessionId !== undefined || resumeSessionId !== undefined) {
      return this.#resume({ directory: resolved, agentArgs, sessionId, resumeSessionId }, deadline);
    }
    const sessionDirectory =
      sessionType === 'simple' ? resolved : await this.#openWorktree({ directory: resolved, name: worktreeName, branch }, deadline);
    // A branch may lack the subfolder. The session then starts in the root of the worktree.
    this.trusted?.require(sessionDirectory, trust);
    return this.#start({ directory: sessionDirectory, agentArgs, startArgs, ...sessionParams }, deadline);
  }

  /**
   * Starts a session with the history of another session.
   * @param {{sessionId?: string, seq?: number, directory?: string, agent?: string, sessionType?: string, worktreeName?: string,
   *   trust?: boolean}} params `sessionId`: of the original session; `seq`: of the message before which the history ends
   * @throws {Error} whose message is sent to the web client
   */
  async fork({ sessionId, seq, directory, agent, sessionType, worktreeName, trust } = {}) {
    check(this.program.canFork === true, 'The agents of this machine cannot fork a session.');
    check(typeof sessionId === 'string' && WORD.test(sessionId), '"sessionId" must be the id of the session to fork.');
    check(Number.isSafeInteger(seq) && seq >= 0 && seq < 1e15, '"seq" must be the number of a message.');
    const params = { directory, agent, sessionType: sessionType ?? undefined, worktreeName, trust };
    return this.spawn(params, [`--fork=${sessionId}:${seq}`]);
  }

  /**
   * Starts a session with arguments of the program.
   * @param {{directory: string, agent: string, args: string[], trust?: boolean}} session `args`: of the command line of the session's
   *   process
   * @returns {Promise<{success: boolean, sessionId?: string, error?: string}>}
   * @throws {Error} whose message is sent to the web client
   */
  async spawnWithArgs({ directory, agent, args, trust }) {
    const deadline = Date.now() + this.readyTimeoutMs;
    const { resolved, agentArgs } = await this.#prepare(directory, agent, trust);
    return this.#startProcess(resolved, agentArgs, args, deadline);
  }

  /** Ends all spawned sessions. */
  end() {
    return this.processes.end();
  }

  /**
   * @param {{directory: string, agentArgs: string[], startArgs: string[], model?: string, options?: Record<string, string | boolean>,
   *   yolo?: boolean}} session
   * @param {number} deadline
   */
  #start({ directory, agentArgs, startArgs, model, options = {}, yolo = false }, deadline) {
    const optionArgs = this.#optionArgs(options);
    check(model === undefined || typeof model === 'string', '"model" must be a string.');
    // The tag must be unique. The directory alone is the tag of the session that is started at the terminal.
    const args = [`--tag=${directory}#${randomUUID()}`];
    if (model !== undefined) args.push(`--model=${model}`);
    if (yolo === true) args.push('--auto-approve');
    args.push(...optionArgs, ...startArgs);
    return this.#startProcess(directory, agentArgs, args, deadline);
  }

  /** Checks that a session can be started. Returns the resolved directory, and the arguments that name the agent. */
  async #prepare(directory, agent, trust) {
    check(
      typeof agent === 'string' && WORD.test(agent) && agent.length <= 64,
      '"agent" must be 1 to 64 letters, digits, ".", "_" and "-".',
    );
    check(this.processes.size < MAX_SESSIONS, `This machine already runs ${MAX_SESSIONS} sessions. End one of them first.`);
    const resolved = await this.#resolveDirectory(directory);
    const agentArgs = await this.program.agentArgs(agent, this.options);
    this.trusted?.require(resolved, trust);
    return { resolved, agentArgs };
  }

  #optionArgs(options) {
    const isValue = (value) => typeof value === 'boolean' || (isShort(value) && !value.includes('\0'));
    const isId = (id) => isShort(id) && !/[=\0]/.test(id);
    const isValid =
      typeof options === 'object' && options !== null && Object.entries(options).every(([id, value]) => isId(id) && isValue(value));
    check(isValid, '"options" must be an object of texts and booleans by the id of the option.');
    if (Object.keys(options).length === 0) return [];
    check(this.program.optionArgs !== undefined, 'The agents of this machine have no options.');
    return this.program.optionArgs(options);
  }

  /** Resumes a session. Returns the result of the first start if the session is already served. Waits for the end of an ending session. */
  async #resume({ directory, agentArgs, sessionId, resumeSessionId }, deadline) {
    const isWord = (id) => typeof id === 'string' && WORD.test(id);
    check(isWord(sessionId), '"sessionId" must be the id of the session to resume.');
    check(isWord(resumeSessionId), '"resumeSessionId" must be the agent\'s id of the session to resume.');
    for (let session = this.#find(sessionId); session; session = this.#find(sessionId)) {
      if (!session.isEnding) return session.started;
      await withDeadline(session.ended, deadline, 'The session is still ending. Try again in a few seconds.');
    }
    return this.#startProcess(directory, agentArgs, [`--session-id=${sessionId}`, `--resume=${resumeSessionId}`], deadline, sessionId);
  }

  #find(id) {
    return this.ownSession?.id === id ? this.ownSession : this.processes.find(id);
  }

  #openWorktree(options, deadline) {
    const opened = openWorktree({ ...options, directories: this.directories });
    // After a timeout, git still completes the worktree, so that a retry finds it.
    const message = 'Creating the worktree takes longer than usual. Try again in a minute.';
    return withDeadline(opened, deadline - this.readyTimeoutMs / 4, message);
  }

  #startProcess(directory, agentArgs, args, deadline, id) {
    const common = [`--dir=${directory}`, `--hub=${this.hub}`, `--machine-id=${this.machineId}`];
    if (this.bridged) common.push('--bridged');
    if (this.verbose) common.push('--verbose');
    // `agentArgs` are last, because they may end with `--` and a command.
    const readyTimeoutMs = deadline - Date.now();
    return this.processes.start([...common, '--no-machine', ...args, ...agentArgs], { readyTimeoutMs, canServeLater: true, id });
  }

  async #resolveDirectory(directory) {
    check(typeof directory === 'string' && directory !== '', '"directory" is missing.');
    check(!directory.includes('\0'), '"directory" must not contain NUL.');
    const { path, isServed, info } = await findServedDirectory(this.directories, directory);
    check(isServed, `${directory} is outside the directories this machine serves. To allow it, start the agent with --allow-dir.`);
    check(info !== null, `There is no directory ${directory} on this machine.`);
    check(info.isDirectory(), `${directory} is not a directory.`);
    return path;
  }
}

const isShort = (value) => typeof value === 'string' && value !== '' && value.length <= 200;

function check(condition, message) {
  if (!condition) throw new PathError(message);
}

/** Waits for a promise, and rejects with `message` at the deadline. */
async function withDeadline(promise, deadline, message) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), Math.max(0, deadline - Date.now()));
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
