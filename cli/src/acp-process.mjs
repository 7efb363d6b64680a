/** The process of an agent, and the connection to the agent. The process leads a process group, which is ended as a whole. */

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { client } from '@agentclientprotocol/sdk';
import { describeDirectoryProblem } from 'session-gateway-cli-kit/directory-problem';
import { killWithVariable, signalGroup } from 'session-gateway-cli-kit/system-processes';
import { MAX_MESSAGE_BYTES, createMessageReader } from './message-reader.mjs';
import { SilenceTimer } from './silence.mjs';
import { toModelRetry } from './translate/model-retries.mjs';
import { SubagentSessions } from './translate/subagent-sessions.mjs';

/** Time between SIGTERM and SIGKILL. */
const KILL_DELAY_MS = 3000;

/**
 * The output of an exited process is closed after this long without a write, because a process outside of the group may hold the pipes
 * open.
 */
const DRAIN_TIMEOUT_MS = 1000;

/** Limit on the characters of standard error that are kept for error messages. */
const MAX_STDERR_CHARS = 4000;

/** Limit on the lines in the error text of an agent that does not start. The lines often say what to do. */
const MAX_START_LINES = 20;

/** Limit on the lines of standard output that are no messages and are kept for error messages. */
const MAX_OTHER_LINES = 20;
const MAX_OTHER_LINE_CHARS = 500;

const INTERNAL_ERROR = -32603;

/** A variable by which the processes that the agent has started are found, although some have a process group of their own. */
const PROCESS_VARIABLE = 'SESSION_GATEWAY_AGENT_PROCESS';

const MEBIBYTE = 1024 * 1024;

/** The agent's process has ended, or could not be started. */
export class AgentEndedError extends Error {}

/** The agent has written nothing during the time limit of a request. */
export class AgentSilentError extends Error {}

/** Finds the reason in npm's error output, between codes, stack traces and general advice. */
export const findNpmReason = (text) => /^npm (?:error|ERR!) (?!code |errno |syscall |path )(?:notarget |40\d )?(\S.*)$/m.exec(text)?.[1];

export class AcpProcess {
  #child;
  #program;
  #stderr = '';
  /** The last lines of standard output that are no messages. @type {string[]} */
  #otherLines = [];
  #lastStderrAt = 0;
  #chunkCount = 0;
  #hasEnded = false;
  /** Whether this program ends the process. */
  #isEnding = false;
  /** The timers of the requests with a time limit. @type {Set<SilenceTimer>} */
  #timers = new Set();

  subagents = new SubagentSessions();

  /**
   * Starts the agent.
   * @param {{argv: string[], cwd: string, env: Record<string, string>, log: {debug: (text: string) => void},
   *   onUpdate: (params: any) => void, onPermission: (params: any, signal: AbortSignal) => Promise<object>,
   *   onElicitation: (params: any, signal: AbortSignal) => Promise<object>, onSkipped?: (sentence: string) => void,
   *   waitForSpace?: () => Promise<unknown>}} options `onSkipped`: called when a message is too long to be read; `waitForSpace`: awaited
   *   before each chunk of the agent's output is read, for backpressure
   */
  constructor({ argv, cwd, env, log, onUpdate, onPermission, onElicitation, onSkipped = () => {}, waitForSpace = async () => {} }) {
    const [program, ...args] = argv;
    this.#program = program;
    // Detached: the process gets its own process group.
    const processId = randomUUID();
    const child = spawn(program, args, {
      cwd,
      env: { ...env, [PROCESS_VARIABLE]: processId },
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    });
    this.#child = child;
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      this.#lastStderrAt = performance.now();
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR_CHARS);
      log.debug(`agent: ${text.trimEnd()}`);
    });
    child.stdin.on('error', () => {});
    process.once('exit', this.#killNow);
    /** Resolves to the description of the process's end. @type {Promise<string>} */
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => resolve(describeDirectoryProblem(cwd) ?? `Cannot start ${program}: ${error.message}`));
      child.once('close', (code, signal) => resolve(signal ? `ended by ${signal}` : `exit code ${code}`));
    }).then((ending) => {
      this.#hasEnded = true;
      process.off('exit', this.#killNow);
      return ending;
    });
    // Replaces the SDK's parsers, which drop unknown fields and refuse requests with unknown kinds of options.
    const identity = (params) => params;
    const app = client({ name: 'session-gateway-agent' })
      .onNotification('session/update', identity, ({ params }) => onUpdate(params))
      .onNotification('_claude/sdkMessage', identity, ({ params }) => {
        const update = toModelRetry(params.message);
        if (update) onUpdate({ update });
      })
      .onRequest('session/request_permission', identity, ({ params, signal }) => onPermission(params, signal))
      .onRequest('elicitation/create', identity, ({ params, signal }) => onElicitation(params, signal));
    // Other processes of the group could hold the pipes open and so delay `close`.
    child.once('exit', (_code, signal) => {
      this.#killNow();
      // An agent that is killed cannot end its commands.
      if (signal !== null && !this.#isEnding) killWithVariable(PROCESS_VARIABLE, processId);
      this.#drain(waitForSpace);
    });
    const transform = async (chunk, controller) => {
      for (const timer of this.#timers) timer.reset();
      await waitForSpace();
      this.#chunkCount += 1;
      controller.enqueue(chunk);
    };
    const encoder = new TransformStream({ transform: (message, controller) => controller.enqueue(`${JSON.stringify(message)}\n`) });
    encoder.readable.pipeTo(Writable.toWeb(child.stdin)).catch(() => {});
    const { writable } = encoder;
    const reader = createMessageReader({
      onOtherLine: (line) => {
        const text = line.slice(0, MAX_OTHER_LINE_CHARS);
        this.#otherLines = [...this.#otherLines, text].slice(-MAX_OTHER_LINES);
        log.debug(`agent: ${text}`);
      },
      replaceSkipped: ({ bytes, id, kind }) => {
        const message = `A message of the agent has ${Math.ceil(bytes / MEBIBYTE)} MiB. The limit is ${MAX_MESSAGE_BYTES / MEBIBYTE} MiB.`;
        if (id === undefined) onSkipped(message);
        // The SDK answers a request with an unknown method by an error.
        return id === undefined
          ? null
          : { jsonrpc: '2.0', id, ...(kind === 'method' ? { method: 'skipped' } : { error: { code: INTERNAL_ERROR, message } }) };
      },
    });
    // Rewrites messages before the SDK reads them, because the SDK drops `subagent_update`.
    const rewriting = new TransformStream({
      transform: (received, controller) => {
        const message = this.subagents.rewrite(received);
        if (message !== null) controller.enqueue(message);
      },
    });
    const received = Readable.toWeb(child.stdout)
      .pipeThrough(new TransformStream({ transform }))
      .pipeThrough(/** @type {any} */ (reader))
      .pipeThrough(rewriting);
    this.connection = app.connect({ readable: /** @type {any} */ (received), writable });
    // An agent that closed its output cannot answer.
    this.connection.closed.then(() => this.#terminate());
  }

  get pid() {
    return this.#child.pid;
  }

  /**
   * Returns the last lines on standard error that are not blank.
   * @param {number} count
   * @param {number} [since] a time of `performance.now()`; without output after this time, returns no lines
   * @returns {string[]}
   */
  lastErrorLines(count, since = 0) {
    if (this.#lastStderrAt < since) return [];
    return this.#stderr
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-count);
  }

  /** Returns the last lines of an agent that does not start. */
  #startLines() {
    return [...this.#otherLines, ...this.lastErrorLines(MAX_START_LINES)].slice(-MAX_START_LINES);
  }

  /** Describes why the process ended, with the last lines of its output. */
  #describeEnd(ending, isStart) {
    const npmReason = this.#program === 'npx' ? findNpmReason(this.#stderr) : undefined;
    if (npmReason !== undefined) return `npx cannot run it: ${npmReason}`;
    const lines = isStart ? this.#startLines() : this.lastErrorLines(1);
    // A process that was killed had no time to write the reason.
    if (this.#child.pid === undefined) return ending;
    if (lines.length === 0 || ending === 'ended by SIGKILL') return isStart ? `${ending}, without a reason in its output` : ending;
    return lines.length === 1 ? `${ending}. ${lines[0]}` : `${ending}:\n${lines.join('\n')}`;
  }

  /**
   * Sends a request.
   * @param {string} method
   * @param {object} params
   * @param {number} [silenceTimeoutMs] time limit without any output of the agent
   * @throws {AgentEndedError} when the process ends before it answers
   * @throws {AgentSilentError} at the time limit
   * @throws {import('@agentclientprotocol/sdk').RequestError} the agent's error
   */
  async request(method, params, silenceTimeoutMs) {
    const answer = this.connection.agent.request(method, params);
    try {
      return await (silenceTimeoutMs === undefined ? answer : this.#limitSilence(answer, silenceTimeoutMs));
    } catch (error) {
      if (error instanceof AgentSilentError) throw error;
      if (!this.connection.signal.aborted && !this.#hasEnded) throw error;
      const ending = await this.ended;
      throw new AgentEndedError(this.#describeEnd(ending, method === 'initialize'));
    }
  }

  /** Reads the rest of the output of an exited process, then closes the output. */
  async #drain(waitForSpace) {
    for (let count = -1; count !== this.#chunkCount; ) {
      count = this.#chunkCount;
      await waitForSpace();
      await delay(DRAIN_TIMEOUT_MS, undefined, { ref: false });
    }
    this.#child.stdout.destroy();
    this.#child.stderr.destroy();
  }

  /** Waits for the answer. Rejects if the agent writes nothing for `timeoutMs`. */
  #limitSilence(answer, timeoutMs) {
    return new Promise((resolve, reject) => {
      const onSilent = () => {
        this.#timers.delete(timer);
        reject(new AgentSilentError([`it has not answered for ${Math.round(timeoutMs / 1000)} s.`, ...this.#startLines()].join('\n')));
      };
      const timer = new SilenceTimer({ timeoutMs, onSilent });
      this.#timers.add(timer);
      timer.start();
      const stop = () => {
        this.#timers.delete(timer);
        timer.stop();
      };
      answer.then(resolve, reject).finally(stop);
    });
  }

  notify(method, params) {
    return this.connection.agent.notify(method, params).catch(() => {});
  }

  /** Ends the process group with SIGTERM, and after `KILL_DELAY_MS` with SIGKILL. */
  end() {
    this.#isEnding = true;
    return this.#terminate();
  }

  async #terminate() {
    if (this.#hasEnded) return;
    this.#signal('SIGTERM');
    const timer = setTimeout(this.#killNow, KILL_DELAY_MS);
    await this.ended;
    clearTimeout(timer);
    // Processes of the group may outlive its leader.
    this.#killNow();
    this.connection.close();
  }

  #killNow = () => this.#signal('SIGKILL');

  #signal(signal) {
    signalGroup(this.#child.pid, signal);
  }
}
