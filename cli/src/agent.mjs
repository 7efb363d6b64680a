/**
 * The agent of a session: a process that speaks the Agent Client Protocol. Sends the user's messages to the process as prompts, one at
 * a time, and sends the process's output to the hub. If the process has ended, the next message starts a new process, which resumes
 * the session.
 */

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import * as messages from 'session-gateway-cli-kit/messages';
import { TaskQueue } from 'session-gateway-cli-kit/task-queue';
import { AcpSession, SessionUnavailableError } from './acp-session.mjs';
import { AgentMetadata } from './agent-metadata.mjs';
import { AgentSettings } from './agent-settings.mjs';
import { Approvals } from './approvals.mjs';
import { describeDenial, withDenials } from './denials.mjs';
import { resolveLaunch } from './launch.mjs';
import { LiveText } from './live-text.mjs';
import { ModeChanges } from './mode-changes.mjs';
import * as notices from './notices.mjs';
import { toPrompt } from './prompt.mjs';
import { SilenceTimer } from './silence.mjs';
import { isContinued } from './translate/records.mjs';
import { createTranslator } from './translate/translator.mjs';

/** Limit on the messages that wait for space in the outbox. Above this limit, the agent's output is not read. */
const MAX_WAITING_MESSAGES = 200;

/** Limit on how long the start of a session waits for the agent. A later failure is reported in the conversation. */
const START_TIMEOUT_MS = 10_000;

/** How long to wait for updates of a turn that agents send after the reply to the prompt. */
const LATE_UPDATES_DELAY_MS = 250;

/** Time limit of the reply to a canceled prompt. When the time is over, the process is ended. */
const CANCEL_TIMEOUT_MS = 5000;

const MINUTE_MS = 60_000;

/** If the agent is silent in a turn for this long, or npx during a download, a sentence in the conversation says so. */
const SILENCE_TIMEOUT_MS = 60_000;

/** Limit on how long live text waits until the preceding text is stored. */
const HOLD_TIMEOUT_MS = 2000;

/** Interval at which due text and the output of running calls are sent. */
const OUTPUT_INTERVAL_MS = 1000;

export class AcpAgent {
  thinking = false;
  /** @type {AcpSession | null} */
  #session = null;
  /** @type {Promise<AcpSession> | null} */
  #opening = null;
  #translator = null;
  /** @type {Promise<unknown>} */
  #outgoing = Promise.resolve();
  #waitingMessageCount = 0;
  /** The number of requests of the agent that wait for the user. */
  #openRequestCount = 0;
  #promptedAt = 0;
  #reply = null;
  #metadata;
  #settings;
  #outputTimer = null;
  #stopping = new AbortController();

  /** @param {import('session-gateway-cli-kit/session').AgentParts} parts */
  constructor(parts) {
    const { root, options, environment, state, uploads, settings, send, permissions, publishMetadata } = parts;
    this.root = root;
    this.environment = environment;
    this.state = state;
    this.uploads = uploads;
    this.permissions = permissions;
    this.options = /** @type {import('session-gateway-cli-kit/app').ServingOptions & import('./program.mjs').OwnOptions} */ (options);
    this.log = options.log;
    this.onThinking = parts.onThinking;
    this.onHandled = parts.onHandled;
    this.onStarted = parts.onStarted;
    this.publishMetadata = publishMetadata;
    this.requestIds = parts.requestIds;
    this.sendMessage = send;
    this.flush = parts.flush;
    this.#metadata = new AgentMetadata(publishMetadata, parts.session.metadata);
    this.liveText = new LiveText(parts.sendDelta);
    this.flavor = options.flavor;
    const modeChanges = new ModeChanges();
    this.approvals = new Approvals({
      permissions,
      settings,
      send: (records) => this.#send(records),
      modeChanges,
      onDenied: (request, reason) => this.#save({ denials: [...(this.state.saved?.denials ?? []), describeDenial(request, reason)] }),
    });
    this.#settings = new AgentSettings({
      settings,
      model: options.model,
      approvals: this.approvals,
      modeChanges,
      apply: parts.apply,
      publish: publishMetadata,
      warn: (error) => this.#sendNotice(`Not set: ${error.message}`),
    });
    this.queue = new TaskQueue({
      settings,
      send: (message, localId) => this.#sendInOrder(message, localId),
      handle: (item, task) => this.#handle(item, task),
      interrupt: (task) => this.#interrupt(task),
      onEnd: () => {
        this.#setThinking(false);
        this.#metadata.publishUsage();
      },
      onHandled: parts.onHandled,
      onQueueChange: parts.onQueueChange,
      log: options.log,
    });
    /** Runs while the agent answers a prompt. */
    this.silenceTimer = new SilenceTimer({
      timeoutMs: options.silenceTimeoutMs ?? SILENCE_TIMEOUT_MS,
      isSilenceExpected: () => this.#openRequestCount > 0 || this.#waitingMessageCount > 0 || this.#translator.openCalls.length > 0,
      onSilent: () => this.#describeSilence(),
    });
  }

  /**
   * Starts the agent, and waits a limited time until its session is open.
   * @throws {Error} when the agent cannot be started, or when its session cannot be opened and a runner started this process
   */
  async start() {
    const { agent, command } = this.state.saved ?? {};
    // A resumed session keeps its agent. The agent kind does not identify the agent: several agents have the same kind.
    const choice = agent || command ? { agent, command, npx: this.options.npx } : this.options;
    this.launch = resolveLaunch(choice, this.environment);
    this.#settings.launch = this.launch;
    this.#save({ agent: choice.agent, command: choice.command });
    this.publishMetadata({ agentName: this.launch.title });
    const download = this.launch.argv[0] === 'npx' ? ' with npx, which downloads it the first time' : '';
    this.log.info(`starting ${this.launch.title}${download}`);
    await this.#closeInterrupted();
    const opened = this.#ensureOpen();
    let hasReturned = false;
    // If a message waits for the agent, the error is reported as the answer to the message.
    opened.catch((error) => hasReturned && !this.queue.current && this.#reportFailedStart(error));
    try {
      await waitAtMost(this.options.agentStartTimeoutMs ?? START_TIMEOUT_MS, opened);
    } catch (error) {
      if (this.options.startedByRunner || !(error instanceof SessionUnavailableError)) throw error;
      this.#reportFailedStart(error);
    }
    hasReturned = true;
    this.queue.start();
  }

  get #isStopped() {
    return this.#stopping.signal.aborted;
  }

  receive(message) {
    this.queue.receive(message);
  }

  wake() {
    this.queue.wake();
  }

  async abort() {
    // Background work of the agent may request permission outside of a turn.
    if (!this.queue.current) await this.permissions.cancelAll('Aborted');
    return this.queue.abort();
  }

  async stop() {
    this.#stopping.abort();
    this.queue.stop();
    clearInterval(this.#outputTimer);
    await this.#opening?.catch(() => {});
    await this.#session?.close();
    await this.queue.current?.ended;
    await this.#outgoing;
  }

  /** Sets the mode or the model at the agent. Returns the settings that the agent has confirmed. */
  async configure(changes) {
    return this.#settings.configure(await this.#ensureOpen(), changes);
  }

  /** The RPC methods of the agent. */
  methods() {
    return {
      listSlashCommands: () => ({ success: true, commands: this.#metadata.commands }),
      // Agents list their skills among their commands.
      listSkills: () => ({ success: true, skills: [] }),
    };
  }

  /** Completes the turn that an earlier process of this session did not end. Does not send the prompt of the turn again. */
  async #closeInterrupted() {
    const reason = 'The bridge to the agent was restarted while this ran.';
    for (const { id } of this.state.saved?.openCalls ?? []) {
      await this.sendMessage(messages.toolResult(id, reason, true), messages.localIds(id).result);
    }
    for (const { id, input } of this.state.calls) {
      const localIds = messages.localIds(id);
      if (!input.hasEnded) await this.sendMessage(messages.text(notices.INTERRUPTED), localIds.end);
      await this.sendMessage(messages.ready(), localIds.ready);
    }
    this.#save({ openCalls: [] });
  }

  async #handle(item, task) {
    this.#setThinking(true);
    // An abort does not wait for the agent's start, because a download takes minutes.
    const session = await Promise.race([this.#ensureOpen(), new Promise((resolve) => (task.skip = resolve))]);
    if (!session) return this.#sendInOrder(messages.text(`Aborted. ${this.launch.title} is still starting, and does not get the message.`));
    const { canTakeImages } = session;
    const { losesLinks } = this.launch.entry ?? {};
    const { text, hasDenials } = withDenials(item, this.state.saved?.denials);
    const { blocks, ignored } = await toPrompt({ ...item, text }, { uploads: this.uploads, canTakeImages, losesLinks });
    for (const name of ignored) await this.#sendInOrder(messages.text(`${name} is ignored: it is not an upload of this session.`));
    if (blocks.length === 0) return this.#sendInOrder(messages.text('The message is empty: there is nothing to send to the agent.'));
    if (this.#isStopped) return;
    if (task.isAborted) return this.#sendInOrder(messages.text('Aborted.'));
    // Recorded before the prompt is sent: after a crash, the prompt must not be sent again, because the agent may have acted on it.
    const turn = { id: randomUUID(), name: 'prompt', input: {} };
    this.state.saved = { ...this.state.saved, hasPrompt: true };
    this.state.recordCall(turn, item.seq);
    this.#metadata.suggestTitle(item.text);
    task.readyId = messages.localIds(turn.id).ready;
    const translator = this.#translator;
    if (hasDenials) this.#save({ denials: [] });
    this.#reply = session.prompt(blocks);
    this.liveText.start(translator);
    this.#promptedAt = performance.now();
    this.silenceTimer.start();
    try {
      const { stopReason } = await this.#reply;
      this.silenceTimer.stop();
      await delay(LATE_UPDATES_DELAY_MS);
      await this.#send(translator.endTurn(task.isAborted ? 'cancelled' : stopReason));
      if (this.launch.entry?.hasTitleInList) this.#metadata.readTitle(session).catch((error) => this.log.debug(error.message));
    } catch (error) {
      if (this.#isStopped) {
        await this.#send(translator.closeOpenCalls('The session was ended while this ran.'));
        return;
      }
      await this.#send(task.isAborted ? translator.endTurn('cancelled') : translator.closeOpenCalls('The turn ended with an error.'));
      if (error instanceof SessionUnavailableError) this.log.warn(error.message);
      if (!task.isAborted) await this.#sendInOrder(messages.failure(notices.failedTurn(this.launch, error)));
    } finally {
      this.liveText.stop();
      this.silenceTimer.stop();
      this.#reply = null;
    }
    await this.#outgoing;
    // Only `ready` is missing, so a restart after this point needs no explanation in the conversation.
    turn.input.hasEnded = true;
    this.#save({});
  }

  #describeSilence() {
    const line = this.#session?.lastErrorLine(this.#promptedAt);
    this.#sendNotice(notices.silence(this.launch, this.silenceTimer.timeoutMs, line));
  }

  /** Adds a sentence to the conversation. */
  #sendNotice(sentence) {
    this.#sendInOrder(messages.text(sentence)).catch(() => {});
  }

  async #interrupt(task) {
    task.skip?.();
    const canceled = this.permissions.cancelAll('Aborted');
    if (this.#reply) await this.#session?.cancel(this.#reply, this.options.cancelTimeoutMs ?? CANCEL_TIMEOUT_MS);
    await canceled;
  }

  /** Resolves to the session once it is open and its settings are restored. Starts the agent if it is not running. */
  #ensureOpen() {
    if (this.#opening) return this.#opening;
    if (this.#session) return Promise.resolve(this.#session);
    if (this.#isStopped) return Promise.reject(new Error('The session has ended.'));
    this.#opening = this.#open().finally(() => (this.#opening = null));
    this.#opening.then(
      () => this.onStarted(null),
      (error) => !this.#isStopped && this.onStarted(error.message),
    );
    return this.#opening;
  }

  async #open() {
    const { launch, flavor } = this;
    // Without a prompt, the session has no conversation that could be lost.
    const { sessionId, startedAt = 0, hasPrompt = true } = this.state.saved ?? {};
    if (sessionId && hasPrompt && launch.entry?.forgetsInStartMinute) await this.#waitForNextMinute(startedAt);
    mkdirSync(this.uploads, { recursive: true, mode: 0o700 });
    // The hub reads todos only from plans whose agent kind the protocol defines.
    const planFlavor = launch.entry?.flavor ?? 'alpha';
    const translator = createTranslator({ agent: launch.name ?? '', flavor: planFlavor, usedIds: this.requestIds() });
    this.#translator = translator;
    await launch.entry?.repairRecords?.(this.environment);
    const notice = this.#startDownloadNotice();
    const session = await AcpSession.open({
      launch,
      cwd: this.root,
      uploads: this.uploads,
      env: this.environment,
      sessionId,
      answerTimeoutMs: this.options.answerTimeoutMs,
      signal: this.#stopping.signal,
      log: this.log,
      onUpdate: (update, isReplayed) => {
        this.silenceTimer.reset();
        return this.#send(isReplayed ? translator.onReplayedUpdate(update) : translator.onUpdate(update));
      },
      onPermission: (params, signal) =>
        this.#countWhileOpen(this.approvals.answer(translator, translator.onPermissionRequest(params), signal)),
      waitForSpace: async () => {
        while (this.#waitingMessageCount > MAX_WAITING_MESSAGES && !this.#isStopped) await this.#outgoing;
      },
      onElicitation: (params, signal) =>
        this.#countWhileOpen(this.approvals.answer(translator, translator.onElicitation(params), signal, { isForm: true })),
    }).finally(() => notice?.stop());
    await launch.entry?.repairRecords?.(this.environment);
    this.#session = session;
    session.ended.then((ending) => this.#handleEnd(session, ending));
    this.#outputTimer ??= setInterval(() => this.#send(this.#translator.takeDueRecords()), OUTPUT_INTERVAL_MS);
    const isResumed = sessionId !== undefined && session.resumeFailure === null;
    this.#save({ sessionId: session.id, ...(isResumed ? {} : { startedAt: Date.now(), hasPrompt: false }) });
    if (session.resumeFailure !== null && hasPrompt) {
      const sentence = notices.lostSession(launch, sessionId, session.resumeFailure);
      this.log.warn(sentence);
      this.#sendNotice(sentence);
    }
    this.state.setAgentId(session.id);
    await this.#settings.restore(session);
    this.publishMetadata({ [`${flavor}SessionId`]: session.id });
    this.#settings.publishChoices(session);
    return session;
  }

  /** Starts a timer that tells the user when npx is still downloading the agent. @returns {SilenceTimer | undefined} */
  #startDownloadNotice() {
    if (this.launch.argv[0] !== 'npx') return undefined;
    const notice = new SilenceTimer({
      timeoutMs: this.silenceTimer.timeoutMs,
      onSilent: () => this.#sendNotice(notices.download(this.launch)),
    });
    notice.start();
    return notice;
  }

  /** Counts a request of the agent as open until the request is answered. The agent is silent while a request is open. */
  async #countWhileOpen(answered) {
    this.#openRequestCount += 1;
    try {
      return await answered;
    } finally {
      this.#openRequestCount -= 1;
      this.silenceTimer.reset();
    }
  }

  /** Waits until the clock shows a later minute than the minute in which the session was started. */
  async #waitForNextMinute(startedAt) {
    const ms = (Math.floor(startedAt / MINUTE_MS) + 1) * MINUTE_MS - Date.now();
    if (ms <= 0) return;
    const sentence = notices.waitForMinute(this.launch, ms);
    this.log.info(sentence);
    this.#sendNotice(sentence);
    await delay(ms, undefined, this.#stopping).catch(() => {});
    if (this.#isStopped) throw new Error('The session has ended.');
  }

  #handleEnd(session, ending) {
    if (this.#session !== session) return;
    this.#session = null;
    clearInterval(this.#outputTimer);
    this.#outputTimer = null;
    if (this.#isStopped) return;
    this.log.warn(`${this.launch.title} ended (${ending}). The next message starts it again.`);
    this.permissions.cancelAll('The agent ended');
    this.permissions.clearRules();
  }

  /** Sends the records of the translator in order. */
  #send(records) {
    for (const record of records) {
      if (record.type === 'message') this.#sendInOrder(record.content, record.localId);
      else this.#handleRecord(record);
    }
    if (records.length > 0) this.#saveOpenCalls();
    // Web clients join the next part to this message, so the live text of that part must not overtake the message.
    if (records.some(isContinued)) this.liveText.hold(this.#outgoing.then(() => this.flush(HOLD_TIMEOUT_MS)));
    return this.#outgoing;
  }

  /** Sends a message after all earlier messages. While the outbox is full, messages wait. */
  #sendInOrder(message, localId) {
    this.#waitingMessageCount += 1;
    const sent = this.#outgoing.then(() => this.sendMessage(message, localId));
    this.#outgoing = sent.catch(() => {}).finally(() => (this.#waitingMessageCount -= 1));
    return sent;
  }

  #handleRecord(record) {
    if (record.type === 'summary') this.#metadata.setSummary(record.text);
    if (record.type === 'usage') {
      const { type: _type, ...usage } = record;
      this.#metadata.setUsage(usage);
      if (!this.thinking) this.#metadata.publishUsage();
    }
    if (record.type === 'commands') this.#metadata.setCommands(record.commands);
    if (record.type === 'mode') this.#settings.onModeReport(record.mode, { isOpen: this.#session !== null });
    if (record.type === 'options' && this.#session) this.#settings.publishChoices(this.#session);
  }

  /** Saves the open calls. If this process is killed, the next process closes the saved calls. */
  #saveOpenCalls() {
    const openCalls = this.#translator.openCalls.map(({ id }) => ({ id }));
    const saved = this.state.saved?.openCalls ?? [];
    if (openCalls.length !== saved.length || openCalls.some(({ id }, i) => saved[i].id !== id)) this.#save({ openCalls });
  }

  #save(fields) {
    this.state.save({ ...this.state.saved, ...fields });
  }

  #setThinking(thinking) {
    if (this.thinking === thinking) return;
    this.thinking = thinking;
    this.onThinking(thinking);
  }

  #reportFailedStart(error) {
    if (this.#isStopped) return;
    this.log.warn(error.message);
    const advice = error instanceof SessionUnavailableError ? '' : `\nThe next message starts ${this.launch.title} again.`;
    this.#sendInOrder(messages.failure(`${error.message}${advice}`)).catch(() => {});
  }
}

/** Waits for a promise, but at most `ms`. */
async function waitAtMost(ms, promise) {
  const timer = new AbortController();
  const timeout = delay(ms, undefined, { signal: timer.signal }).catch(() => {});
  await Promise.race([promise, timeout]).finally(() => timer.abort());
}
