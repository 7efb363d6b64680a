/** Runs the turns of an agent: sends a message to the agent as a prompt, and reports the end of the turn, or a long silence, to the hub. */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import * as messages from 'session-gateway-cli-kit/messages';
import { RecoverableSessionError } from './acp-session.mjs';
import { withDenials } from './denials.mjs';
import * as notices from './notices.mjs';
import { toPrompt } from './prompt.mjs';
import { SilenceTimer } from './silence.mjs';
import { STATE_UPDATES, showsWork } from './translate/state-updates.mjs';

/** How long to wait for updates of a turn that agents send after the reply to the prompt. */
const LATE_UPDATES_DELAY_MS = 250;

/** Time limit of the reply to a canceled prompt. Without a reply, the process of the agent is ended. */
const CANCEL_TIMEOUT_MS = 5000;

/** If the agent sends nothing that {@link showsWork} for this long during a turn, a sentence in the conversation says so. */
const SILENCE_TIMEOUT_MS = 60_000;

/** While a call runs, a silence is reported after this many times as long: tests and builds may print nothing for minutes. */
const SILENT_CALL_FACTOR = 10;

export class Turns {
  #dependencies;
  /**
   * The running turn. `reply`: the agent's reply to the prompt; `hasOutput`: whether the agent has added to the conversation.
   * @type {{session: AcpSession, startedAt: number, hasOutput: boolean, reply: Promise<{stopReason: string}>} | null}
   */
  #current = null;
  /** Whether a prompt was sent to the agent's process. */
  hasRun = false;
  /** The number of requests of the agent that wait for the user. */
  #openRequestCount = 0;

  /**
   * @typedef {import('./acp-session.mjs').AcpSession} AcpSession
   * @param {{options: Record<string, any>, launch: () => import('./launch.mjs').Launch, uploads: string,
   *   output: import('./output.mjs').Output, liveText: import('./live-text.mjs').LiveTextReader, turnLog: import('./fork.mjs').TurnLog,
   *   metadata: import('./agent-metadata.mjs').AgentMetadata, state: import('session-gateway-cli-kit/state').SessionState,
   *   save: (fields: object) => void, onPrompt: () => void, onCallsClosed: () => void, isStopped: () => boolean,
   *   log: {debug: (text: string) => void, warn: (text: string) => void}}} dependencies
   *   `save`: changes fields of `state.saved`; `onPrompt`: called before a prompt is sent; `onCallsClosed`: called after the calls of a
   *   turn were closed
   */
  constructor(dependencies) {
    this.#dependencies = dependencies;
    const { output } = dependencies;
    /** Runs while the agent answers a prompt. */
    this.silenceTimer = new SilenceTimer({
      timeoutMs: SILENCE_TIMEOUT_MS,
      isSilenceExpected: (count) =>
        this.#openRequestCount > 0 || output.isWaiting || (output.translator.openCalls.length > 0 && count < SILENT_CALL_FACTOR),
      onSilent: (count) => this.#describeSilence(count),
    });
  }

  /** Whether a message can be sent into the running turn. */
  get canSteer() {
    return this.#current?.session.canSteer === true;
  }

  /** To be called with each update of the session. */
  onUpdate(update, isReplayed) {
    if (showsWork(update)) this.silenceTimer.reset();
    if (isReplayed) return;
    this.#dependencies.turnLog.onUpdate(update);
    if (this.#current && !STATE_UPDATES.has(update?.sessionUpdate)) this.#current.hasOutput = true;
  }

  /**
   * Sends a message as a prompt. Resolves at the end of the turn.
   * @param {AcpSession} session
   * @param {import('session-gateway-cli-kit/task-queue').Item} item
   * @param {import('session-gateway-cli-kit/task-queue').Task} task
   */
  async run(session, item, task) {
    const { launch, uploads, output, liveText, turnLog, metadata, state, save, onPrompt, onCallsClosed, isStopped, log } =
      this.#dependencies;
    const { canTakeImages } = session;
    const { needsInlineFiles, hasTitleInList } = launch().entry ?? {};
    const { text, hasDenials } = withDenials(item, state.saved?.denials);
    const { blocks, ignored } = await toPrompt({ ...item, text }, { uploads, canTakeImages, needsInlineFiles });
    for (const name of ignored) await output.sendMessage(messages.text(`${name} is ignored: it is not an upload of this session.`));
    if (blocks.length === 0) return output.sendMessage(messages.text('The message is empty: there is nothing to send to the agent.'));
    if (isStopped()) return;
    if (task.isAborted) return output.sendMessage(messages.text('Aborted.'));
    // Recorded before the prompt is sent: after a crash, the prompt must not be sent again, because the agent may have acted on it.
    const turn = { id: randomUUID(), name: 'prompt', input: /** @type {{hasEnded?: boolean}} */ ({}) };
    state.saved = { ...state.saved, hasPrompt: true };
    state.recordCall(turn, item.seq);
    onPrompt();
    metadata.suggestTitle(item.text);
    task.readyId = messages.localIds(turn.id).ready;
    const { translator } = output;
    if (hasDenials) save({ denials: [] });
    turnLog.startTurn();
    const reply = session.prompt(blocks);
    this.hasRun = true;
    this.#current = { session, reply, startedAt: performance.now(), hasOutput: false };
    liveText.start(translator);
    this.silenceTimer.start();
    try {
      const { stopReason } = await reply;
      this.silenceTimer.stop();
      await delay(LATE_UPDATES_DELAY_MS);
      await output.send(translator.endTurn(task.isAborted ? 'cancelled' : stopReason));
      onCallsClosed();
      const [, command] = /^\/(\S+)/.exec(item.text) ?? [];
      const isUnknown = command !== undefined && !this.#current.hasOutput && !metadata.commands.some(({ name }) => name === command);
      if (isUnknown && !task.isAborted) output.notify(notices.unknownCommand(launch(), command));
      if (hasTitleInList) metadata.readTitle(session).catch((error) => log.debug(error.message));
    } catch (error) {
      const said = translator.lastText.trim();
      if (isStopped()) {
        await output.send(translator.closeOpenCalls('The session was ended while this ran.'));
        return;
      }
      await output.send(task.isAborted ? translator.endTurn('cancelled') : translator.closeOpenCalls('The turn ended with an error.'));
      onCallsClosed();
      if (error instanceof RecoverableSessionError) log.warn(error.message);
      // Claude Code says its error as its last message, too.
      const isSaid = said !== '' && error.message.endsWith(said);
      const sentence = isSaid ? notices.FAILED_AS_SAID : notices.failedTurn(launch(), error);
      if (!task.isAborted) await output.sendMessage(messages.failure(sentence));
    } finally {
      liveText.stop();
      this.silenceTimer.stop();
      this.#current = null;
    }
    turnLog.endTurn(item.seq);
    await output.sent;
    // Only `ready` is missing, so a restart after this point needs no explanation in the conversation.
    turn.input.hasEnded = true;
    save({});
  }

  /**
   * Sends a message into the running turn.
   * @param {import('session-gateway-cli-kit/task-queue').Item} item
   * @returns {Promise<boolean>} false if the agent refuses the message
   */
  async steer(item) {
    const { launch, uploads } = this.#dependencies;
    const { session } = this.#current;
    const { needsInlineFiles } = launch().entry ?? {};
    const { blocks } = await toPrompt(item, { uploads, canTakeImages: session.canTakeImages, needsInlineFiles });
    return blocks.length > 0 && session.steer(blocks);
  }

  /** Cancels the running turn. */
  async cancel() {
    if (!this.#current) return;
    const { session, reply } = this.#current;
    await session.cancel(reply, this.#dependencies.options.cancelTimeoutMs ?? CANCEL_TIMEOUT_MS);
  }

  /** Counts a request of the agent as open until the request is answered. The agent is silent while a request is open. */
  async countWhileOpen(answered) {
    this.#openRequestCount += 1;
    try {
      return await answered;
    } finally {
      this.#openRequestCount -= 1;
      this.silenceTimer.reset();
    }
  }

  #describeSilence(count) {
    const { output, launch } = this.#dependencies;
    const ms = count * this.silenceTimer.timeoutMs;
    const { runningCall } = output.translator;
    if (runningCall) return output.notify(notices.silentCall(launch(), ms, runningCall));
    const line = this.#current?.session.lastErrorLine(this.#current.startedAt);
    return output.notify(notices.silence(launch(), ms, line));
  }
}
