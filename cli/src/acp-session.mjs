/** One session of an agent. The session is opened or resumed in a new process, and accepts prompts until the process ends. */

import { setTimeout as delay } from 'node:timers/promises';
import { AcpProcess, AgentEndedError, AgentSilentError } from './acp-process.mjs';
import { VERSION } from './version.mjs';

/** The JSON-RPC code of "authentication required". */
const AUTH_REQUIRED = -32000;

/** Agents may replay a session even after their answer to `session/load`. The replay ends when there was no update for this long. */
const REPLAY_SILENCE_MS = 300;

const CLOSE_TIMEOUT_MS = 1000;

/** How long the agent may write nothing during a request other than a prompt. */
const ANSWER_TIMEOUT_MS = 60_000;

/** How long an agent may write nothing during a start with npx, which downloads up to 0.5 GB. */
const DOWNLOAD_TIMEOUT_MS = 10 * 60_000;

/** Limit on the number of modes, and of models, in the session's metadata. The hub accepts 128,000 bytes of each. */
const MAX_CHOICES = 300;
const MAX_DESCRIPTION_CHARS = 200;

const CLIENT = {
  protocolVersion: 1,
  clientInfo: { name: 'session-gateway-agent', title: 'Session gateway agent', version: VERSION },
  // Files and terminals of this client would bypass the agent's own permission requests.
  clientCapabilities: {
    fs: { readTextFile: false, writeTextFile: false },
    terminal: false,
    session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
    elicitation: { form: {} },
  },
};

/** The agent runs, but the session cannot be opened: the user must sign in. */
export class SessionUnavailableError extends Error {}

/** Returns the text of a JSON-RPC error. Some agents put the reason into the error's data. */
export const describeError = (/** @type {Error & {data?: any}} */ { message, data }) =>
  typeof data?.details === 'string' ? `${message}: ${data.details}` : message;

/** Converts an error of the agent's start to an error that names the agent. */
function toStartError(error, { title, argv, entry }) {
  if (error instanceof SessionUnavailableError) return error;
  if (error instanceof AgentEndedError) return new AgentEndedError(`${title} did not start: ${error.message}`);
  if (error instanceof AgentSilentError) {
    const program = entry ? [entry.command, ...entry.args].join(' ') : argv.join(' ');
    const advice = `Check the network connection of this computer, and start it in a terminal to see what it waits for: ${program}`;
    return new AgentSilentError(`${title} did not start: ${error.message}\n${advice}`);
  }
  return new Error(`${title} cannot open a session: ${describeError(error)}`);
}

export class AcpSession {
  #process;
  #launch;
  #cwd;
  #isReplaying = false;
  #lastUpdateAt = 0;
  #capabilities = {};
  #authMethods = [];
  #options = [];
  #legacyModes = null;
  #legacyModels = null;
  #answerTimeoutMs;

  /** If the agent could not resume the session and has created a new session: the reason. Otherwise null. @type {string | null} */
  resumeFailure = null;

  /** The agent's id of the session. @type {string} */
  id = '';

  /**
   * Starts the agent and opens a session.
   * @param {{launch: import('./launch.mjs').Launch, cwd: string, uploads: string, env: Record<string, string>,
   *   sessionId?: string, answerTimeoutMs?: number, signal: AbortSignal, log: {debug: (text: string) => void},
   *   onUpdate: (update: any, isReplayed: boolean) => void,
   *   onPermission: (params: any, signal: AbortSignal) => Promise<object>,
   *   onElicitation: (params: any, signal: AbortSignal) => Promise<object>, waitForSpace?: () => Promise<unknown>}} options
   *   `sessionId`: the session to resume. If the agent cannot resume this session, opens a new session and sets `resumeFailure`.
   *   `signal`: aborts the start. The other options are those of {@link AcpProcess}.
   * @returns {Promise<AcpSession>}
   * @throws {SessionUnavailableError | import('./acp-process.mjs').AgentEndedError | AgentSilentError | Error}
   */
  static async open({ launch, cwd, uploads, env, sessionId, answerTimeoutMs = ANSWER_TIMEOUT_MS, signal, ...handlers }) {
    const session = new AcpSession(launch, cwd, { ...launch.entry?.env, ...env }, handlers);
    session.#answerTimeoutMs = answerTimeoutMs;
    const onAbort = () => session.end();
    signal.addEventListener('abort', onAbort);
    try {
      await session.#open({ cwd, uploads, env, sessionId });
      return session;
    } catch (error) {
      await session.end();
      throw toStartError(error, launch);
    } finally {
      signal.removeEventListener('abort', onAbort);
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
    const handleUpdate = (/** @type {{update?: any}} */ { update } = {}) => {
      this.#lastUpdateAt = Date.now();
      if (update?.sessionUpdate === 'current_mode_update') this.#setCurrentMode(update.currentModeId);
      if (update?.sessionUpdate === 'config_option_update') this.#options = update.configOptions ?? [];
      onUpdate(update, this.#isReplaying);
    };
    this.#process = new AcpProcess({ argv: launch.argv, cwd, env, onUpdate: handleUpdate, ...handlers });
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

  /** The agent's permission modes. @returns {{id: string, name: string, description?: string}[]} */
  get modes() {
    if (this.#legacyModes) return this.#legacyModes.availableModes.map(toChoice);
    return choicesOf(this.#optionOf('mode')).map(({ value, ...choice }) => toChoice({ ...choice, id: value }));
  }

  get currentMode() {
    return this.#legacyModes?.currentModeId ?? this.#optionOf('mode')?.currentValue;
  }

  /** The agent's models. @returns {{id: string, name: string, description?: string}[]} */
  get models() {
    const option = this.#optionOf('model');
    if (option) return choicesOf(option).map(({ value, ...choice }) => toChoice({ ...choice, id: value }));
    return (this.#legacyModels?.availableModels ?? []).map(({ modelId, ...model }) => toChoice({ ...model, id: modelId }));
  }

  get currentModel() {
    return this.#optionOf('model')?.currentValue ?? this.#legacyModels?.currentModelId;
  }

  /**
   * @param {object[]} blocks
   * @returns {Promise<{stopReason: string}>}
   * @throws {SessionUnavailableError | import('./acp-process.mjs').AgentEndedError | Error}
   */
  async prompt(blocks) {
    try {
      return await this.#process.request('session/prompt', { sessionId: this.id, prompt: blocks });
    } catch (error) {
      throw error.code === AUTH_REQUIRED ? new SessionUnavailableError(this.#describeSignIn(error)) : error;
    }
  }

  /** Cancels the current prompt. Ends the process if `reply`, the reply to the prompt, does not arrive within `timeoutMs`. */
  async cancel(reply, timeoutMs) {
    this.#process.notify('session/cancel', { sessionId: this.id });
    const isSettled = await Promise.race([reply.then(returnTrue, returnTrue), delay(timeoutMs, false, { ref: false })]);
    if (!isSettled) await this.end();
  }

  /** Reads the session's title from the agent's list of sessions. @returns {Promise<string | undefined>} */
  async readTitle() {
    const { sessions = [] } = await this.#request('session/list', { cwd: this.#cwd });
    return sessions.find(({ sessionId }) => sessionId === this.id)?.title;
  }

  async setMode(modeId) {
    if (modeId === this.currentMode) return;
    const option = this.#optionOf('mode');
    if (this.#legacyModes || !option) await this.#request('session/set_mode', { sessionId: this.id, modeId });
    else await this.#setOption(option, modeId);
    this.#setCurrentMode(modeId);
  }

  async setModel(modelId) {
    if (modelId === this.currentModel) return;
    const option = this.#optionOf('model');
    if (option) return this.#setOption(option, modelId);
    await this.#request('session/set_model', { sessionId: this.id, modelId });
    if (this.#legacyModels) this.#legacyModels.currentModelId = modelId;
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

  async #open({ cwd, uploads, env, sessionId }) {
    const startTimeoutMs = this.#launch.argv[0] === 'npx' ? DOWNLOAD_TIMEOUT_MS : this.#answerTimeoutMs;
    const { agentCapabilities = {}, authMethods = [] } = await this.#process.request('initialize', CLIENT, startTimeoutMs);
    this.#capabilities = agentCapabilities;
    this.#authMethods = authMethods;
    const folders = agentCapabilities.sessionCapabilities?.additionalDirectories ? { additionalDirectories: [uploads] } : {};
    const meta = this.#launch.entry?.sessionMeta?.(env, process.getuid?.());
    const params = { cwd, mcpServers: [], ...folders, ...(meta ? { _meta: meta } : {}) };
    const create = () => this.#request('session/new', params);
    const start = () => (sessionId === undefined ? create() : this.#resume(params, sessionId, create));
    const result = await start().catch(async (error) => {
      if (error.code !== AUTH_REQUIRED) throw error;
      await this.#signIn(env, error);
      return start();
    });
    this.id = sessionId !== undefined && this.resumeFailure === null ? sessionId : result.sessionId;
    this.#options = result?.configOptions ?? [];
    this.#legacyModes = Array.isArray(result?.modes?.availableModes) ? result.modes : null;
    this.#legacyModels = Array.isArray(result?.models?.availableModels) ? result.models : null;
    const { initialMode } = this.#launch.entry ?? {};
    if (initialMode && this.modes.some(({ id }) => id === initialMode)) await this.setMode(initialMode);
  }

  /** Resumes a session. If that fails, creates a new session: otherwise the directory could never be served again. */
  async #resume(params, sessionId, create) {
    const { loadSession, sessionCapabilities } = this.#capabilities;
    const createInstead = (reason) => {
      this.resumeFailure = reason;
      return create();
    };
    if (!sessionCapabilities?.resume && !loadSession) return createInstead('it cannot resume sessions');
    const request = { ...params, sessionId };
    try {
      return await (sessionCapabilities?.resume ? this.#request('session/resume', request) : this.#load(request));
    } catch (error) {
      if (error.code === AUTH_REQUIRED || error instanceof AgentEndedError || error instanceof AgentSilentError) throw error;
      return createInstead(describeError(error).replace(/\.$/, ''));
    }
  }

  async #load(request) {
    this.#isReplaying = true;
    try {
      const result = await this.#request('session/load', request);
      this.#lastUpdateAt = Date.now();
      for (let wait = REPLAY_SILENCE_MS; wait > 0; wait = this.#lastUpdateAt + REPLAY_SILENCE_MS - Date.now()) await delay(wait);
      return result;
    } finally {
      this.#isReplaying = false;
    }
  }

  /** Signs in with the key in the environment. Without a key, throws an error that explains how the user signs in. */
  async #signIn(env, error) {
    const methodId = this.#launch.entry?.authMethod?.(env);
    if (methodId && this.#authMethods.some(({ id }) => id === methodId)) {
      await this.#request('authenticate', { methodId });
      return;
    }
    throw new SessionUnavailableError(this.#describeSignIn(error));
  }

  #describeSignIn(error) {
    const { title, entry } = this.#launch;
    const offered = this.#authMethods.map(({ name, description }) => `- ${name}${description ? `: ${description}` : ''}`);
    const lines = [`${title} is not signed in: ${describeError(error)}`, entry?.signIn, ...offered, 'Then send a message.'];
    return lines.filter(Boolean).join('\n');
  }

  async #setOption({ id }, value) {
    const result = await this.#request('session/set_config_option', { sessionId: this.id, configId: id, value });
    if (Array.isArray(result?.configOptions)) this.#options = result.configOptions;
  }

  #request(method, params) {
    return this.#process.request(method, params, this.#answerTimeoutMs);
  }

  #setCurrentMode(modeId) {
    if (this.#legacyModes) this.#legacyModes.currentModeId = modeId;
    const option = this.#optionOf('mode');
    if (option) option.currentValue = modeId;
  }

  #optionOf(category) {
    return this.#options.find((option) => option?.category === category && option.type === 'select');
  }
}

const returnTrue = () => true;

/** Returns the choices of an option. An agent may send the choices in groups. */
const choicesOf = (option) => (option?.options ?? []).flatMap((choice) => choice.options ?? [choice]).slice(0, MAX_CHOICES);

const toChoice = (/** @type {{id: string, name?: string, description?: string}} */ { id, name, description }) => ({
  id,
  name: name ?? id,
  ...(description ? { description: description.slice(0, MAX_DESCRIPTION_CHARS) } : {}),
});
