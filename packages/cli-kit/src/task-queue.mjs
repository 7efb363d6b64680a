/** The queue of a session's user messages. Handles one message at a time, in order, and reports each handled message. */

import { isDeepStrictEqual } from 'node:util';
import * as messages from './messages.mjs';

/** Limit on the seqs that are reported to `onQueueChange`. */
const MAX_REPORTED_SEQS = 500;

/**
 * A user message, or a command typed at the terminal (`isLocal`, without `seq`). `isSkipped`: the item must not be handled.
 * @typedef {{seq?: number, text?: string, attachments?: {path: string, filename?: string, mimeType?: string}[], isLocal?: boolean,
 *   isSkipped?: boolean}} Item
 */

/**
 * The item that is being handled. `readyId`: the local id of the final `ready` event, set by the handler to make the event idempotent.
 * @typedef {{item: Item, isAborted: boolean, ended: Promise<void>, readyId?: string}} Task
 */

export class TaskQueue {
  /** @type {Item[]} */
  #items = [];
  #isProcessing = false;
  #isPaused = true;
  /** @type {number[]} */
  #queuedSeqs = [];

  /** @type {Task | null} */
  current = null;
  isStopped = false;

  /**
   * @param {{settings: {mode: string}, send: (message: object, localId?: string) => Promise<unknown>,
   *   handle: (item: Item, task: Task) => Promise<unknown>, interrupt: (task: Task) => Promise<unknown>,
   *   onEnd?: () => void, onHandled?: (seq: number, wasSkipped: boolean) => void, onQueueChange?: (seqs: number[]) => void,
   *   log: {warn: (text: string) => void}}} parts
   *   - `interrupt`: makes `handle` return soon
   *   - `onEnd`: called after `handle`, before `ready` is sent
   *   - `onHandled`: called once for each message, after its last effect
   *   - `onQueueChange`: called with the seqs of the messages in the queue
   */
  constructor({ settings, send, handle, interrupt, onEnd = () => {}, onHandled = () => {}, onQueueChange = () => {}, log }) {
    this.settings = settings;
    this.send = send;
    this.handle = handle;
    this.interrupt = interrupt;
    this.onEnd = onEnd;
    this.onHandled = onHandled;
    this.onQueueChange = onQueueChange;
    this.log = log;
  }

  /** Starts to handle items, including items that were added before. */
  start() {
    this.#isPaused = false;
    this.wake();
  }

  /** Adds a message of the history or of a live update. Messages that no user sent are skipped, in order. */
  receive({ seq, content }) {
    this.add({ seq, ...(messages.parseUserMessage(content) ?? { isSkipped: true }) });
  }

  /** @param {Item} item */
  add(item) {
    this.#items.push(item);
    this.wake();
    this.#reportQueue();
  }

  /** Handles items that can be handled now. To be called when a setting has changed: the queue may wait for a change of the mode. */
  wake() {
    if (!this.#isProcessing && !this.#isPaused) this.#process();
  }

  /**
   * Aborts the current task and drops the queued items.
   * @returns {Promise<{aborted: boolean, dropped: number}>} when the task has ended
   */
  async abort() {
    const dropped = this.#items.filter((item) => !item.isSkipped);
    for (const item of dropped) item.isSkipped = true;
    this.#reportQueue();
    const task = this.current;
    try {
      if (task) {
        task.isAborted = true;
        await this.interrupt(task);
        await task.ended;
      }
    } finally {
      if (dropped.length > 0) await this.send(messages.text(`Dropped, not run:\n${dropped.map(describeItem).join('\n')}`));
    }
    this.wake();
    return { aborted: task !== null, dropped: dropped.length };
  }

  /** Stops handling items. The next process of the session handles the queued items. */
  stop() {
    this.isStopped = true;
  }

  async #process() {
    this.#isProcessing = true;
    for (let item = this.#takeNext(); item; item = this.#takeNext()) {
      if (!item.isSkipped) await this.#runTask(item);
      if (!this.isStopped) this.#markHandled(item);
    }
    this.#isProcessing = false;
  }

  /** Takes the next item off the queue. While the terminal is in control, messages of the web stay queued. */
  #takeNext() {
    if (this.isStopped) return undefined;
    const index = this.#items.findIndex((item) => item.isSkipped || item.isLocal || this.settings.mode === 'remote');
    const item = index < 0 ? undefined : this.#items.splice(index, 1)[0];
    this.#reportQueue();
    return item;
  }

  #reportQueue() {
    const waiting = this.#items.filter(({ seq, isSkipped }) => seq !== undefined && !isSkipped);
    const seqs = waiting.slice(0, MAX_REPORTED_SEQS).map(({ seq }) => seq);
    if (isDeepStrictEqual(seqs, this.#queuedSeqs)) return;
    this.#queuedSeqs = seqs;
    this.onQueueChange(seqs);
  }

  #markHandled(item) {
    // The handled seq is a high-water mark. It must not pass a message that is still queued for remote mode.
    const isEarlierQueued = this.#items.some((other) => !other.isSkipped && other.seq !== undefined && other.seq < item.seq);
    if (item.seq !== undefined && !isEarlierQueued) this.onHandled(item.seq, item.isSkipped === true);
  }

  /** @param {Item} item */
  async #runTask(item) {
    /** @type {() => void} */
    let end;
    /** @type {Promise<void>} */
    const ended = new Promise((resolve) => {
      end = resolve;
    });
    /** @type {Task} */
    const task = { item, isAborted: false, ended };
    this.current = task;
    try {
      await this.handle(item, task);
    } catch (error) {
      this.log.warn(`cannot handle a message: ${error.message}`);
      if (!this.isStopped) await this.send(messages.failure(`Error: ${error.message}`)).catch(() => {});
    }
    this.onEnd();
    if (!this.isStopped) await this.send(messages.ready(), task.readyId).catch((error) => this.log.warn(error.message));
    this.current = null;
    end();
  }
}

/** The text of an item, and the names of its attachments. */
const describeItem = (/** @type {Item} */ { text, attachments = [] }) =>
  [text, ...attachments.map(({ path, filename }) => filename ?? path)].filter(Boolean).join('\n');
