/** One session of an agent. The session is opened or resumed in a new process, and accepts prompts until the process ends. */

import { setTimeout as delay } from 'node:timers/promises';
import { AcpProcess, AgentEndedError, AgentSilentError } from './acp-process.mjs';
import { fetchAdapter } from './adapter.mjs';
import { environmentOf } from './agents.mjs';
import { isInUse, isUnknownSession } from './resume-errors.mjs';
import { SessionConfig } from './session-config.mjs';
import { describeRetries, toCodexRetry } from './translate/model-retries.mjs';
import { showsWork } from './translate/state-updates.mjs';
import { VERSION } from './version.mjs';

/** The JSON-RPC code of "authentication required". */
const AUTH_REQUIRED = -32000;

/**
 * A replay counts as complete after this time without an update that {@link showsWork}, because agents may continue it after their answer
 * to `session/load`.
 */
const REPLAY_SILENCE_MS = 300;

/** Time between two attempts to open a session that another program uses. */
const IN_USE_INTERVAL_MS = 5000;

const CLOSE_TIMEOUT_MS = 1000;

/** How long the agent may write nothing during a request other than a prompt. */
const ANSWER_TIMEOUT_MS = 60_000;

/** How long an agent may write nothing during a start with npx, which downloads up to 0.5 GB. */
const DOWNLOAD_TIMEOUT_MS = 10 * 60_000;

/** The version of the protocol that the bridge speaks. `test/acp-versions.test.mjs` lists what differs in the draft of version 2. */
const PROTOCOL_VERSION = 1;

const CLIENT = {
  protocolVersion: PROTOCOL_VERSION,
  clientInfo: { name: 'session-gateway-agent', title: 'Session gateway agent', version: VERSION },
  // Files and terminals of this client would bypass the agent's own permission requests.
  clientCapabilities: {
    fs: { readTextFile: false, writeTextFile: false },
    terminal: false,
    session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
    elicitation: { form: {} },
    // With this field, Claude Code also sends what a sub-agent says.
    _meta: { 'subagent-transcript': true },
  },
};

/** The user is not signed in to the agent, or the agent cannot resume the session now. The next message tries again; the text says so. */
export class RecoverableSessionError extends Error {}

/** Returns the text of a JSON-RPC error. Some agents put the reason into the error's data. */
export const describeError = (/** @type {Error & {data?: any}} */ { message, data }) =>
  typeof data?.details === 'string' ? `${message}: ${data.details}` : message;

/** Returns the text of a JSON-RPC error for the middle of a sentence. */
const describeReason = (/** @type {Error & {data?: any}} */ error) => describeError(error).replace(/\.$/, '');

/** Converts an error of the agent's start to an error that names the agent. */
export function toStartError(error, { title, argv, entry }, purpose = 'open a session') {
  if (error instanceof RecoverableSessionError) return error;
  if (error instanceof AgentEndedError) return new AgentEndedError(`${title} did not start: ${error.message}`);
  if (error instanceof AgentSilentError) {
    const program = entry ? [entry.command, ...entry.args].join(' ') : argv.join(' ');
    const advice = `Check the network connection of this computer, and start it in a terminal to see what it waits for: ${program}`;
    return new AgentSilentError(`${title} did not start: ${error.message}\n${advice}`);
  }
  return new Error(`${title} cannot ${purpose}: ${describeError(error)}`);
}

export class AcpSession {
  #process;
  #launch;
  #cwd;
  /** @type {(params?: {update?: any}) => void} */
  #onUpdate;
  #isReplaying = false;
  #lastUpdateAt = 0;
  #capabilities = {};
  #authMethods = [];
  #canSteer = false;
  #onInUse;
  #inUseIntervalMs;

  /** The modes, the models and the options that the agent offers. */
  config = new SessionConfig((method, params) => this.#request(method, { sessionId: this.id, ...params }));

  /** If the agent could not resume the session and has created a new session: the reason. Otherwise null. @type {string | null} */
  resumeFailure = null;

  /** If the agent could not fork a session and has created a new session: the reason. Otherwise null. @type {string | null} */
  forkFailure = null;

  /** The agent's id of the session. @type {string} */
  id = '';

  /**
   * Starts the agent and opens a session.
   * @param {{launch: import('./launch.mjs').Launch, cwd: string, uploads: string, env: Record<string, string>,
   *   sessionId?: string, fork?: {sessionId: string, directory?: string, messageId?: string}, inUseIntervalMs?: number, onInUse?: (reason: string) => void,
   *   signal: AbortSignal, log: {debug: (text: string) => void},
   *   mustLoad?: boolean, onUpdate: (update: any, isReplayed: boolean) => void,
   *   onPermission: (params: any, signal: AbortSignal) => Promise<object>,
   *   onElicitation: (params: any, signal: AbortSignal) => Promise<object>, onSkipped?: (sentence: string) => void,
   *   waitForSpace?: () => Promise<unknown>}} options
   *   `sessionId`: the session to resume. If the agent does not have this session, opens a new session and sets
   *   `resumeFailure`. While another program uses the session, tries again, after one call of `onInUse`. `fork`:
   *   used only without `sessionId`. The session to fork, its directory, and the message after which it is forked. If the agent cannot fork
   *   this session, opens a new session and sets `forkFailure`.
   *   `mustLoad`: the agent must replay the session, and opens no new session instead. `signal`: aborts the start. The other options are
   *   those of {@link AcpProcess}.
   * @returns {Promise<AcpSession>}
   * @throws {RecoverableSessionError | import('./acp-process.mjs').AgentEndedError | AgentSilentError | Error}
   */
  static async open({
    launch,
    cwd,
    uploads,
    env,
    sessionId,
    fork,
    mustLoad = false,
    inUseIntervalMs = IN_USE_INTERVAL_MS,
    onInUse = () => {},
    signal,
    ...handlers
  }) {
    await fetchAdapter(launch, { env, signal, log: handlers.log });
    const ownEnv = environmentOf(launch.entry, env);
    const source = await launch.entry?.openSource?.(ownEnv);
    const agentEnv = { ...ownEnv, ...source?.env };
    const session = new AcpSession({ ...launch, argv: [...launch.argv, ...(source?.args ?? [])] }, cwd, agentEnv, handlers);
    session.ended.then(() => source?.close?.());
    session.#inUseIntervalMs = inUseIntervalMs;
    session.#onInUse = onInUse;
    const onAbort = () => session.end();
    signal.addEventListener('abort', onAbort);
    try {
      await session.#open({ cwd, uploads, env, sessionId, fork, mustLoad });
      const { id, ended } = session;
      const { log, onPermission } = handlers;
      await source?.follow({
        sessionId: id,
        cwd,
        env: agentEnv,
        ended,
        log,
        onPermission,
        onUpdate: (update) => session.#onUpdate({ update }),
      });
      signal.throwIfAborted();
      return session;
    } catch (error) {
      await session.end();
      throw toStartError(error, launch);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Starts the agent, and reads its list of sessions.
   * @param {Pick<Parameters<typeof AcpSession.open>[0], 'launch' | 'cwd' | 'env' | 'log'>} options
   * @param {(readPage: (cursor?: string) => Promise<{sessions?: unknown, nextCursor?: unknown}>) => Promise<T>} readPages
   * @returns {Promise<T | null>} the result of `readPages`; null if the agent does not list its sessions
   * @template T
   * @throws {RecoverableSessionError | import('./acp-process.mjs').AgentEndedError | AgentSilentError | Error}
   */
  static async list({ launch, cwd, env, log }, readPages) {
    await fetchAdapter(launch, { env, log });
    const refuse = async () => ({});
    const handlers = { log, onUpdate: () => {}, onPermission: refuse, onElicitation: refuse };
    const session = new AcpSession(launch, cwd, environmentOf(launch.entry, env), handlers);
    try {
      await session.#initialize();
      if (!session.canList) return null;
      const readPage = (/** @type {string | undefined} */ cursor) =>
        session.#withSignIn(env, () => session.#request('session/list', cursor === undefined ? {} : { cursor }));
      return await readPages(readPage);
    } catch (error) {
      throw toStartError(error, launch, 'list its sessions');
    } finally {
      // Not awaited, because the list is complete, and the process takes up to 3 s to end.
      void session.end();
    }
  }

  /**
   * @param {import('./launch.mjs').Launch} launch
   * @param {string} cwd
   * @param {Record<string, string>} env
   * @param {Omit<Parameters<typeof AcpSession.open>[0], 'launch' | 'cwd' | 'uploads' | 'env' | 'signal'>} handlers
   */
  constructor(launch, cwd, env, { onUpdate, ...handlers }) {
    this.#launch = launch;
    this.#cwd = cwd;
    this.#onUpdate = ({ update: received } = {}) => {
      const update = toCodexRetry(received) ?? received;
      if (showsWork(update)) this.#lastUpdateAt = Date.now();
      this.config.onUpdate(update);
      const isRetry = update?.sessionUpdate === 'model_retry';
      onUpdate(isRetry ? { ...update, text: describeRetries(launch, update) } : update, this.#isReplaying);
    };
    this.#process = new AcpProcess({ argv: launch.argv, cwd, env, onUpdate: this.#onUpdate, ...handlers });
    /** Resolves to the description of the process's end. */
    this.ended = this.#process.ended;
  }

  get pid() {
    return this.#process.pid;
  }

  /** Returns the agent's last line on standard error after a time of `performance.now()`. @returns {string | undefined} */
  lastErrorLine(since) {
    return this.#process.lastErrorLines(1, since)[0];
  }

  get canTakeImages() {
    return this.#capabilities.promptCapabilities?.image === true;
  }

  /** Whether the agent can replay a session. */
  get canLoad() {
    return this.#capabilities.loadSession === true;
  }

  /** Whether the agent lists its sessions. */
  get canList() {
    return Boolean(this.#capabilities.sessionCapabilities?.list);
  }

  /**
   * @param {object[]} blocks
   * @returns {Promise<{stopReason: string}>}
   * @throws {RecoverableSessionError | import('./acp-process.mjs').AgentEndedError | Error}
   */
  async prompt(blocks) {
    try {
      return await this.#process.request('session/prompt', { sessionId: this.id, prompt: blocks });
    } catch (error) {
      throw error.code === AUTH_REQUIRED ? new RecoverableSessionError(this.#describeSignIn(error)) : error;
    }
  }

  /** Whether the agent takes messages during a turn. This extension of the protocol is not in its specification. */
  get canSteer() {
    return this.#canSteer;
  }

  /**
   * Sends a message into the running turn.
   * @param {object[]} blocks
   * @returns {Promise<boolean>} false if the agent refuses the message, such as after the end of the turn
   * @throws {Error} if the agent ends, or does not answer
   */
  async steer(blocks) {
    const _meta = { steering: { idleBehavior: 'promptRequired' } };
    try {
      const { outcome } = await this.#request('_session/steering', { sessionId: this.id, prompt: blocks, _meta });
      return outcome !== 'promptRequired';
    } catch (error) {
      if (typeof error.code === 'number') return false;
      throw error;
    }
  }

  /** Cancels the current prompt. Ends the process if `reply`, the reply to the prompt, does not arrive within `timeoutMs`. */
  async cancel(reply, timeoutMs) {
    for (const sessionId of [this.id, ...this.#process.subagents.cancelable]) this.#process.notify('session/cancel', { sessionId });
    const isSettled = await Promise.race([reply.then(returnTrue, returnTrue), delay(timeoutMs, false, { ref: false })]);
    if (!isSettled) await this.end();
  }

  /** Reads the session's title from the agent's list of sessions. @returns {Promise<string | undefined>} */
  async readTitle() {
    const { sessions = [] } = await this.#request('session/list', { cwd: this.#cwd });
    return sessions.find(({ sessionId }) => sessionId === this.id)?.title;
  }

  /** Closes the session if the agent supports that, and ends the process group. */
  async close() {
    if (this.id !== '' && this.#capabilities.sessionCapabilities?.close) {
      const closed = this.#process.request('session/close', { sessionId: this.id }).catch(() => {});
      await Promise.race([closed, delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
    }
    await this.end();
  }

  /** Ends the process group. */
  end() {
    return this.#process.end();
  }

  async #initialize() {
    const startTimeoutMs = this.#launch.argv[0] === 'npx' ? DOWNLOAD_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
    const clientCapabilities = { ...CLIENT.clientCapabilities, ...this.#launch.entry?.clientCapabilities };
    const answer = await this.#process.request('initialize', { ...CLIENT, clientCapabilities }, startTimeoutMs);
    const { protocolVersion = PROTOCOL_VERSION, agentCapabilities = {}, authMethods = [], _meta } = answer;
    if (protocolVersion !== PROTOCOL_VERSION) {
      throw new Error(
        `it speaks version ${protocolVersion} of the Agent Client Protocol, and this bridge speaks version ${PROTOCOL_VERSION}.` +
          ' Update session-gateway-agent, or install an earlier version of the agent.',
      );
    }
    this.#capabilities = agentCapabilities;
    this.#authMethods = authMethods;
    this.#canSteer = _meta?.steering?.supported === true;
  }

  async #open({ cwd, uploads, env, sessionId, fork, mustLoad }) {
    await this.#initialize();
    const folders = this.#capabilities.sessionCapabilities?.additionalDirectories ? { additionalDirectories: [uploads] } : {};
    const meta = this.#launch.entry?.sessionMeta?.(env, process.getuid?.());
    const params = { cwd, mcpServers: [], ...folders, ...(meta ? { _meta: meta } : {}) };
    const create = () => this.#request('session/new', params);
    const createOrFork = () => (fork === undefined ? create() : this.#fork(params, fork, create));
    const openSession = () => {
      if (mustLoad) return this.#whenFree(() => this.#load({ ...params, sessionId }));
      return sessionId === undefined ? createOrFork() : this.#resume(params, sessionId, create);
    };
    const result = await this.#withSignIn(env, openSession);
    this.id = sessionId !== undefined && this.resumeFailure === null ? sessionId : result.sessionId;
    this.config.onOpened(result);
    const { initialMode } = this.#launch.entry ?? {};
    if (initialMode && this.config.modes.some(({ id }) => id === initialMode)) await this.config.setMode(initialMode);
  }

  /** Opens a session that the agent has. While another program uses the session, tries again. */
  async #whenFree(open) {
    for (let count = 0; ; count += 1) {
      try {
        return await open();
      } catch (error) {
        if (!isInUse(error)) throw error;
        if (count === 0) this.#onInUse(describeReason(error));
        await Promise.race([this.ended, delay(this.#inUseIntervalMs, undefined, { ref: false })]);
      }
    }
  }

  /** Resumes a session. If the agent does not have the session, or cannot resume sessions, creates a new session. */
  async #resume(params, sessionId, create) {
    const { loadSession, sessionCapabilities } = this.#capabilities;
    const createInstead = (reason) => {
      this.resumeFailure = reason;
      return create();
    };
    if (!sessionCapabilities?.resume && !loadSession) return createInstead('it cannot resume sessions');
    const request = { ...params, sessionId };
    try {
      return await this.#whenFree(() => (sessionCapabilities?.resume ? this.#request('session/resume', request) : this.#load(request)));
    } catch (error) {
      if (isUnknownSession(error) || (await this.#listLacks(sessionId))) return createInstead(describeReason(error));
      if (error.code === AUTH_REQUIRED || error instanceof AgentEndedError || error instanceof AgentSilentError) throw error;
      throw new RecoverableSessionError(
        `${this.#launch.title} cannot resume its session ${sessionId}: ${describeReason(error)}.` +
          ' The session is kept, and the next message tries again. To start another session in this directory, use --new.',
      );
    }
  }

  /** Whether the agent's list of sessions shows that the agent does not have a session. @param {string} sessionId */
  async #listLacks(sessionId) {
    if (!this.#launch.entry?.hidesUnknownSession || !this.canList) return false;
    try {
      for (let cursor; ; ) {
        const page = await this.#request('session/list', { cwd: this.#cwd, ...(cursor ? { cursor } : {}) });
        if (page.sessions.some((session) => session.sessionId === sessionId)) return false;
        if (!page.nextCursor) return true;
        cursor = page.nextCursor;
      }
    } catch {
      return false;
    }
  }

  /** Forks a session, at its end or after a message. If that fails, creates a new session. */
  async #fork(params, { sessionId, directory, messageId }, create) {
    const createInstead = (reason) => {
      this.forkFailure = reason;
      return create();
    };
    if (!this.#capabilities.sessionCapabilities?.fork) return createInstead('it cannot fork sessions');
    const isMoved = directory !== undefined && directory !== params.cwd;
    if (isMoved && this.#launch.entry?.forkKeepsDirectory) return createInstead('it can fork a session only in the same directory');
    const forkPoint = messageId === undefined ? {} : this.#launch.entry?.forkMeta?.(messageId);
    if (!forkPoint) return createInstead('it can fork a session only at its end');
    try {
      // opencode replays the history to the fork.
      return await this.#replay('session/fork', { ...params, sessionId, _meta: { ...params._meta, ...forkPoint } });
    } catch (error) {
      if (error.code === AUTH_REQUIRED || error instanceof AgentEndedError || error instanceof AgentSilentError) throw error;
      return createInstead(describeReason(error));
    }
  }

  async #load(request) {
    if (!this.#capabilities.loadSession) throw new Error('it cannot load sessions.');
    return this.#replay('session/load', request);
  }

  /** Sends a request to which the agent replays a session. Resolves to the result after the replay. */
  async #replay(method, params) {
    this.#isReplaying = true;
    try {
      const result = await this.#request(method, params);
      this.#lastUpdateAt = Date.now();
      for (let wait = REPLAY_SILENCE_MS; wait > 0; wait = this.#lastUpdateAt + REPLAY_SILENCE_MS - Date.now()) await delay(wait);
      return result;
    } finally {
      this.#isReplaying = false;
    }
  }

  /** Sends a request. If the agent requires a sign-in, signs in and sends the request again. */
  async #withSignIn(env, send) {
    try {
      return await send();
    } catch (error) {
      if (error.code !== AUTH_REQUIRED) throw error;
      await this.#signIn(env, error);
      return send();
    }
  }

  /** Signs in with the key in the environment. Without a key, throws an error that explains how the user signs in. */
  async #signIn(env, error) {
    const methodId = this.#launch.entry?.authMethod?.(env);
    if (methodId && this.#authMethods.some(({ id }) => id === methodId)) {
      await this.#request('authenticate', { methodId });
      return;
    }
    throw new RecoverableSessionError(this.#describeSignIn(error));
  }

  #describeSignIn(error) {
    const { title, entry } = this.#launch;
    const offered = this.#authMethods.map(({ name, description }) => `- ${name}${description ? `: ${description}` : ''}`);
    const lines = [`${title} is not signed in: ${describeError(error)}`, entry?.signIn, ...offered, 'Then send a message.'];
    return lines.filter(Boolean).join('\n');
  }

  #request(method, params) {
    return this.#process.request(method, params, ANSWER_TIMEOUT_MS);
  }
}

const returnTrue = () => true;
