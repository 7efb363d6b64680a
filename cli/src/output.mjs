/**
 * The output of an agent: sends to the hub, in order, what the translator returns. If the outbox is full, messages wait. The ids of the
 * unfinished tool calls are saved, so that after a crash the next process ends these calls.
 */

import * as messages from 'session-gateway-cli-kit/messages';
import * as notices from './notices.mjs';
import { isContinued } from './translate/records.mjs';

/** Limit on the messages that wait for space in the outbox. Above this limit, the agent's output is not read. */
const MAX_WAITING_MESSAGES = 200;

/** Limit on how long live text waits until the preceding text is stored. */
const LIVE_TEXT_PAUSE_MS = 2000;

/** Interval at which two things are sent: text to which nothing was added for a while, and the output of running calls. */
const INTERVAL_MS = 1000;

export class Output {
  /** Resolves when all messages so far are in the outbox. @type {Promise<unknown>} */
  sent = Promise.resolve();
  #waitingCount = 0;
  #timer = null;
  #dependencies;

  /**
   * The translator of the agent's current process.
   * @type {ReturnType<typeof import('./translate/translator.mjs').createTranslator> | null}
   */
  translator = null;

  /**
   * @param {{send: (message: object, localId?: string) => Promise<unknown>, flush: (timeoutMs: number) => Promise<boolean>,
   *   state: import('session-gateway-cli-kit/state').SessionState, save: (fields: object) => void, isStopped: () => boolean,
   *   liveText: import('./live-text.mjs').LiveTextReader, onActivity: (activity: string | null) => void,
   *   handlers: Record<string, (record: any) => void>}} dependencies `save`: changes fields of `state.saved`; `handlers`: for each type of
   *   record other than `message`, the function that handles such a record
   */
  constructor(dependencies) {
    this.#dependencies = dependencies;
  }

  /** Whether messages wait for space in the outbox. */
  get isWaiting() {
    return this.#waitingCount > 0;
  }

  /** Sends the records of the translator. @param {any[]} records */
  send(records) {
    const { liveText, flush, handlers } = this.#dependencies;
    for (const record of records) {
      if (record.type === 'message') this.sendMessage(record.content, record.localId);
      else handlers[record.type]?.(record);
    }
    if (records.length > 0) this.#saveOpenCalls();
    this.#dependencies.onActivity(this.translator?.activity ?? null);
    // Web clients join the messages of a split text, so the live text of a later message must not arrive before the earlier message.
    if (records.some(isContinued)) liveText.pauseUntil(this.sent.then(() => flush(LIVE_TEXT_PAUSE_MS)));
    return this.sent;
  }

  /** Sends a message after all earlier messages. @param {object} message @param {string} [localId] */
  sendMessage(message, localId) {
    this.#waitingCount += 1;
    const sent = this.sent.then(() => this.#dependencies.send(message, localId));
    this.sent = sent.catch(() => {}).finally(() => (this.#waitingCount -= 1));
    return sent;
  }

  /** Adds a sentence to the conversation. @param {string} sentence */
  notify(sentence) {
    this.sendMessage(messages.text(sentence)).catch(() => {});
  }

  /**
   * Makes all messages wait until another part of the bridge has sent its messages, such as the history of a fork. Must be called before
   * the first message.
   * @param {Promise<unknown>} othersSent resolves when those messages are sent
   */
  startAfter(othersSent) {
    this.sent = othersSent;
  }

  /** Waits until the agent's output can be read. */
  async waitForSpace() {
    while (this.#waitingCount > MAX_WAITING_MESSAGES && !this.#dependencies.isStopped()) await this.sent;
  }

  /** Starts to send, at an interval, text to which nothing was added for a while and the output of running calls. */
  startTimer() {
    this.#timer ??= setInterval(() => this.send(this.translator?.takeDueRecords() ?? []), INTERVAL_MS);
  }

  stopTimer() {
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Completes the turn that an earlier process of this session did not end. Does not send the prompt of the turn again. */
  async completeInterruptedTurn() {
    const { state, send, save } = this.#dependencies;
    const reason = 'The bridge to the agent was restarted while this ran.';
    for (const { id } of state.saved?.openCalls ?? []) {
      await send(messages.toolResult(id, reason, true), messages.localIds(id).result);
    }
    // `Turns` records each turn as a call.
    for (const { id, input } of state.calls) {
      const localIds = messages.localIds(id);
      if (!(/** @type {any} */ (input).hasEnded)) await send(messages.text(notices.INTERRUPTED), localIds.end);
      await send(messages.ready(), localIds.ready);
    }
    save({ openCalls: [] });
  }

  #saveOpenCalls() {
    const { state, save } = this.#dependencies;
    const openCalls = this.translator?.openCalls.map(({ id }) => ({ id })) ?? [];
    const saved = state.saved?.openCalls ?? [];
    if (openCalls.length !== saved.length || openCalls.some(({ id }, i) => saved[i].id !== id)) save({ openCalls });
  }
}
