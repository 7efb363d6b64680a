/**
 * The agent of a session: a process that speaks the Agent Client Protocol. Sends the user's messages to the process as prompts, one at
 * a time, and sends the process's output to the hub. If the process has ended, the next message starts a new process, which resumes
 * the session.
 */

import { mkdirSync } from 'node:fs';
import * as messages from 'session-gateway-cli-kit/messages';
import { TaskQueue } from 'session-gateway-cli-kit/task-queue';
import { AcpSession, RecoverableSessionError, toStartError } from './acp-session.mjs';
import { AgentMetadata } from './agent-metadata.mjs';
import { AgentOptions } from './agent-options.mjs';
import { AgentSettings } from './agent-settings.mjs';
import { Approvals } from './approvals.mjs';
import { BackgroundWork } from './background.mjs';
import { describeDenial } from './denials.mjs';
import { ForkedSession, TurnLog } from './fork.mjs';
import { Handover } from './handover.mjs';
import { resolveLaunch } from './launch.mjs';
import { LiveTextReader } from './live-text.mjs';
import { ModeChanges } from './mode-changes.mjs';
import * as notices from './notices.mjs';
import { rememberOffer } from './offers.mjs';
import { Output } from './output.mjs';
import { createTranslator } from './translate/translator.mjs';
import { Turns } from './turns.mjs';
import { startDownloadNotice, untilLoadable, waitAtMost } from './waits.mjs';

/** Limit on how long the start of a session waits for the agent. A later failure is reported in the conversation. */
const START_TIMEOUT_MS = 10_000;

export class AcpAgent {
  thinking = false;
  /** @type {AcpSession | null} */
  #session = null;
  /** @type {Promise<AcpSession> | null} */
  #opening = null;
  #metadata;
  #settings;
  #output;
  #fork;
  #stopping = new AbortController();

  /** @param {import('session-gateway-cli-kit/session').AgentDependencies} dependencies */
  constructor(dependencies) {
    const { root, options, environment, state, uploads, settings, send, permissions, publishMetadata } = dependencies;
    this.root = root;
    this.environment = environment;
    this.state = state;
    this.uploads = uploads;
    this.permissions = permissions;
    this.options = /** @type {import('session-gateway-cli-kit/app').ServingOptions & import('./program.mjs').OwnOptions} */ (options);
    this.log = options.log;
    this.onThinking = dependencies.onThinking;
    this.onStarted = dependencies.onStarted;
    this.publishMetadata = publishMetadata;
    this.requestIds = dependencies.requestIds;
    this.#metadata = new AgentMetadata(publishMetadata, dependencies.session.metadata);
    this.liveText = new LiveTextReader(dependencies.sendDelta);
    this.flavor = options.flavor;
    this.#output = new Output({
      send,
      flush: dependencies.flush,
      state,
      save: (fields) => this.#save(fields),
      isStopped: () => this.#isStopped,
      liveText: this.liveText,
      onActivity: dependencies.onActivity,
      handlers: {
        summary: ({ text }) => this.#metadata.setTitle(text),
        usage: ({ type: _type, ...usage }) => {
          this.#metadata.setUsage(usage);
          if (!this.thinking) this.#metadata.publishUsage();
        },
        limits: ({ limits }) => this.#metadata.setLimits(limits),
        commands: ({ commands }) => this.#metadata.setCommands(commands),
        mode: ({ mode }) => this.#settings.onModeReport(mode, { isOpen: this.#session !== null }),
        options: () => this.#session && this.#settings.publishChoices(this.#session.config),
      },
    });
    const modeChanges = new ModeChanges();
    this.approvals = new Approvals({
      permissions,
      settings,
      send: (records) => this.#output.send(records),
      modeChanges,
      onDenied: (request, reason) => this.#save({ denials: [...(this.state.saved?.denials ?? []), describeDenial(request, reason)] }),
    });
    const warn = (error) => this.#output.notify(`Not set: ${error.message}`);
    this.#settings = new AgentSettings({
      settings,
      model: options.model,
      approvals: this.approvals,
      modeChanges,
      apply: dependencies.apply,
      publish: publishMetadata,
      onOffer: (offer) => rememberOffer(options.home, this.launch.name ?? this.flavor, offer),
      agentOptions: new AgentOptions({
        initial: this.options.options,
        read: () => this.state.saved?.options,
        save: (values) => this.#save({ options: values }),
        warn,
      }),
      warn,
    });
    this.#fork = new ForkedSession({
      options: this.options,
      uploads,
      read: () => this.state.saved,
      save: (fields) => this.#save(fields),
      send,
      flush: dependencies.flush,
      notify: (sentence) => this.#output.notify(sentence),
      isStopped: () => this.#isStopped,
    });
    this.turns = new Turns({
      options: this.options,
      launch: () => this.launch,
      uploads,
      output: this.#output,
      liveText: this.liveText,
      turnLog: new TurnLog({ read: () => this.state.saved?.turns, save: (turns) => this.#save({ turns }) }),
      metadata: this.#metadata,
      state,
      save: (fields) => this.#save(fields),
      onPrompt: () => this.handover.publishCommand(),
      onCallsClosed: () => this.approvals.cancelClosed(),
      isStopped: () => this.#isStopped,
      log: options.log,
    });
    this.background = new BackgroundWork({
      output: this.#output,
      liveText: this.liveText,
      setThinking: (thinking) => this.#setThinking(thinking),
      publishUsage: () => this.#metadata.publishUsage(),
    });
    this.queue = new TaskQueue({
      settings,
      state,
      send: (message, localId) => this.#output.sendMessage(message, localId),
      handle: (item, task) => this.#handle(item, task),
      interrupt: (task) => this.#interrupt(task),
      canSteer: () => this.turns.canSteer,
      steer: (item) => this.turns.steer(item),
      onEnd: () => {
        this.#setThinking(false);
        this.#metadata.publishUsage();
      },
      onQueueChange: dependencies.onQueueChange,
      log: options.log,
    });
    this.handover = new Handover({
      state: this.state,
      save: (fields) => this.#save(fields),
      publish: publishMetadata,
      flush: dependencies.flush,
      settings,
      switchTo: dependencies.switchTo,
      isStopped: () => this.#isStopped,
      whenIdle: () => this.queue.current?.ended ?? null,
      open: () => this.#ensureOpen(),
      close: (session) => this.#close(session),
      untilLoadable: () => this.#untilLoadable(),
      loadOptions: () => this.#loadOptions(),
      send: (records) => this.#output.send(records),
      metadata: this.#metadata,
      reportFailedStart: (error) => this.#reportFailedStart(error),
      log: options.log,
    });
  }

  /**
   * Starts the agent, and waits a limited time until its session is open.
   * @throws {Error} if the agent cannot be started. If only its session cannot be opened, throws in a process that a runner started;
   *   otherwise reports the error in the conversation
   */
  async start() {
    const source = await this.#fork.prepare();
    const { agent, command } = this.state.saved ?? {};
    // A resumed session keeps its agent. The flavor does not identify the agent, because several agents have the same flavor.
    const choice = agent || command ? { agent, command, npx: this.options.npx, home: this.options.home } : this.options;
    this.launch = resolveLaunch(choice, this.environment);
    this.#settings.launch = this.launch;
    this.#save({ agent: choice.agent, command: choice.command });
    this.publishMetadata({ agentName: this.launch.title });
    const download = this.launch.argv[0] === 'npx' ? ' with npx, which downloads it the first time' : '';
    this.log.info(`starting ${this.launch.title}${download}`);
    if (source) this.#describeFork(source);
    // Not awaited, because the copy waits for space in the outbox, whose messages are sent only after the start.
    this.#output.startAfter(this.#fork.copy().catch((error) => this.log.warn(`The history is not complete: ${error.message}`)));
    await this.#output.completeInterruptedTurn();
    if (this.handover.start(this.options.importSession)) return this.queue.start();
    const opened = this.#ensureOpen();
    let hasReturned = false;
    // If a message waits for the agent, the error is reported as the answer to the message.
    opened.catch((error) => hasReturned && !this.queue.current && this.#reportFailedStart(error));
    try {
      // Resolves to undefined: `Promise.race` with a promise that stays unsettled would keep the value, the session, in memory.
      const whenOpen = opened.then(() => {});
      // The start does not wait for the end of a replay, because a long history takes minutes.
      await waitAtMost(this.options.agentStartTimeoutMs ?? START_TIMEOUT_MS, Promise.race([whenOpen, this.handover.replayStarted]));
    } catch (error) {
      if (this.options.startedByRunner || !(error instanceof RecoverableSessionError)) throw error;
      this.#reportFailedStart(error);
    }
    hasReturned = true;
    if (!this.handover.mustReplay) return this.queue.start();
    // Messages wait until the history is stored, so that they follow it in the conversation.
    const startQueue = () => this.queue.start({ haveWaited: !this.handover.mustReplay });
    opened.then(startQueue, startQueue);
  }

  /**
   * Publishes the origin of a fork, and takes the model of the original session.
   * @param {Record<string, any>} source the original session
   */
  #describeFork({ id, metadata, modelMode }) {
    this.publishMetadata({ forkedFrom: { sessionId: id, seq: this.options.fork.seq } });
    this.#metadata.setTitle(`Fork of ${metadata?.name ?? metadata?.summary?.text ?? 'a session'}`);
    if (modelMode && this.#settings.model === undefined) this.#settings.apply({ modelMode });
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
    // Background work of the agent may request permission outside of a turn. The queue does not wait for the hub's answer: a message that
    // arrives meanwhile is not aborted.
    const canceled = this.queue.current ? null : this.permissions.cancelAll('Aborted');
    const isBackground = this.background.stopWaiting();
    if (isBackground) {
      await this.#session?.cancel(Promise.resolve());
      this.background.end(this.#output.translator.endTurn('cancelled'));
    }
    const outcome = await this.queue.abort();
    await canceled;
    return { ...outcome, aborted: outcome.aborted || isBackground };
  }

  async stop() {
    this.#stopping.abort();
    this.handover.stop();
    this.background.stopWaiting();
    this.queue.stop();
    this.#output.stopTimer();
    // Also ends a start that waits for an answer of the agent.
    await this.#session?.close();
    await this.#opening?.catch(() => {});
    await this.queue.current?.ended;
    await this.#output.sent;
  }

  refuseRemote() {
    return this.handover.webRefusal;
  }

  /** Sets the mode or the model at the agent. Returns the settings that the agent has confirmed. */
  async configure(changes) {
    const { config } = await this.#ensureOpen();
    return this.#settings.configure(config, changes);
  }

  /** Returns the RPC methods of the agent. */
  methods() {
    return {
      listSlashCommands: () => ({ success: true, commands: this.#metadata.commands }),
      // Agents list their skills among their commands.
      listSkills: () => ({ success: true, skills: [] }),
      'set-session-option': async (params) => this.#settings.setOption((await this.#ensureOpen()).config, params),
    };
  }

  async #handle(item, task) {
    if (this.background.stopWaiting()) this.#output.send(this.#output.translator.flush());
    this.#setThinking(true);
    const { mustReplay } = this.handover;
    // An abort does not wait for the agent's start, because a download takes minutes.
    const session = await Promise.race([this.#ensureOpen(), new Promise((resolve) => (task.skip = resolve))]);
    if (!session)
      return this.#output.sendMessage(messages.text(`Aborted. ${this.launch.title} is still starting, and does not get the message.`));
    if (mustReplay) await this.queue.recordStart(item);
    return this.turns.run(session, item, task);
  }

  async #interrupt(task) {
    task.skip?.();
    const canceled = this.permissions.cancelAll('Aborted');
    await this.turns.cancel();
    await canceled;
  }

  /** Resolves to the session once it is open and its settings are restored. Starts the agent if it is not running. */
  #ensureOpen() {
    if (this.#opening) return this.#opening;
    if (this.#session) return Promise.resolve(this.#session);
    if (this.#isStopped) return Promise.reject(new Error('The session has ended.'));
    const { agentRefusal } = this.handover;
    if (agentRefusal !== null) return Promise.reject(new Error(agentRefusal));
    this.#opening = this.#open().finally(() => (this.#opening = null));
    this.#opening.then(
      () => this.onStarted(null),
      (error) => !this.#isStopped && this.onStarted(error.message),
    );
    return this.#opening;
  }

  async #open() {
    const { launch, flavor } = this;
    // `hasPrompt` is missing in files of earlier versions. A session that never got a prompt has no conversation that could be lost.
    const { sessionId, hasPrompt = true } = this.state.saved ?? {};
    if (sessionId && hasPrompt) await this.#untilLoadable();
    mkdirSync(this.uploads, { recursive: true, mode: 0o700 });
    const { mustReplay } = this.handover;
    if (mustReplay) this.handover.beginReplay();
    const translator = createTranslator({ agent: launch.name ?? '', flavor: this.planFlavor, usedIds: this.requestIds() });
    this.#output.translator = translator;
    await launch.entry?.repairRecords?.(this.environment);
    const notice = startDownloadNotice(launch, this.turns.silenceTimer.timeoutMs, (sentence) => this.#output.notify(sentence));
    const session = await AcpSession.open({
      ...this.#loadOptions(),
      fork: this.#fork.request,
      mustLoad: mustReplay,
      onUpdate: (update, isReplayed) => {
        this.turns.onUpdate(update, isReplayed);
        if (isReplayed && mustReplay) return this.#output.send(this.handover.onReplayedUpdate(update));
        if (isReplayed) return this.#output.send(translator.onReplayedUpdate(update));
        const stored = this.#output.send(translator.onUpdate(update));
        this.approvals.onUpdate(update, launch.entry?.keptByShell);
        // What an agent says at its start is no work.
        if (this.turns.hasRun && !this.queue.current) this.background.onUpdate(update);
        return stored;
      },
      onPermission: (params, signal) =>
        this.turns.countWhileOpen(this.approvals.answer(translator, translator.onPermissionRequest(params), signal)),
      onSkipped: (sentence) => this.#output.notify(`${sentence} It is not shown.`),
      waitForSpace: () => this.#output.waitForSpace(),
      onElicitation: (params, signal) =>
        this.turns.countWhileOpen(this.approvals.answer(translator, translator.onElicitation(params), signal, { isForm: true })),
    }).finally(() => notice?.stop());
    await launch.entry?.repairRecords?.(this.environment);
    if (this.#isStopped) {
      await session.close();
      throw new Error('The session has ended.');
    }
    this.#session = session;
    session.ended.then((ending) => this.#handleEnd(session, ending));
    this.#output.startTimer();
    const isResumed = sessionId !== undefined && session.resumeFailure === null;
    this.#save({ sessionId: session.id, ...(isResumed ? {} : { startedAt: Date.now(), hasPrompt: false }) });
    if (sessionId === undefined) this.#fork.onOpened(session, launch.title);
    if (session.resumeFailure !== null && hasPrompt) this.#warn(notices.lostSession(launch, sessionId, session.resumeFailure));
    this.state.setAgentId(session.id);
    await this.#settings.restore(session.config).catch((error) => {
      throw toStartError(error, launch);
    });
    this.publishMetadata({ [`${flavor}SessionId`]: session.id });
    this.#settings.publishChoices(session.config);
    this.handover.publishCommand();
    if (mustReplay) await this.handover.endReplay(session);
    return session;
  }

  /** Ends the agent's process on purpose. */
  #close(session) {
    this.#session = null;
    return session.close();
  }

  /** The options with which the agent opens its session. */
  #loadOptions() {
    const { launch, root: cwd, uploads, environment: env, log, planFlavor } = this;
    const { inUseIntervalMs } = this.options;
    const { signal } = this.#stopping;
    const sessionId = this.state.saved?.sessionId;
    const onInUse = (reason) => this.#warn(notices.sessionInUse(launch, reason));
    return { launch, cwd, uploads, env, sessionId, inUseIntervalMs, onInUse, signal, log, planFlavor };
  }

  /**
   * The flavor in whose message format plans are sent. The hub finds todos only in flavors that the protocol defines, so another
   * agent sends plans in the format of `alpha`.
   */
  get planFlavor() {
    return this.launch.entry?.flavor ?? 'alpha';
  }

  async #untilLoadable() {
    const { launch, environment, log } = this;
    const notify = (sentence) => this.#output.notify(sentence);
    await untilLoadable(launch, this.state.saved, { environment, notify, signal: this.#stopping.signal, log });
    if (this.#isStopped) throw new Error('The session has ended.');
  }

  #handleEnd(session, ending) {
    if (this.#session !== session) return;
    this.#session = null;
    this.#output.stopTimer();
    if (this.#isStopped) return;
    if (this.background.stopWaiting()) this.background.end(this.#output.translator.closeOpenCalls('The agent ended.'));
    this.log.warn(`${this.launch.title} ended (${ending}). The next message starts it again.`);
    this.permissions.cancelAll('The agent ended');
    this.permissions.clearRules();
    this.permissions.forgetShell();
  }

  /** Writes a sentence to the log and into the conversation. */
  #warn(sentence) {
    this.log.warn(sentence);
    this.#output.notify(sentence);
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
    const advice = error instanceof RecoverableSessionError ? '' : `\nThe next message starts ${this.launch.title} again.`;
    this.#output.sendMessage(messages.failure(`${error.message}${advice}`)).catch(() => {});
  }
}
