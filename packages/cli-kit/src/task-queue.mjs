/**
 * The queue of a session's user messages. Handles one message at a time, and records each handled message. Until a message is handled, a
 * user can edit, move or cancel it. Each change is durable before its promise resolves.
 */

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import * as messages from './messages.mjs';

/** @typedef {import('./state.mjs').StoredQueue} StoredQueue */

/** Limit on the seqs that are reported to `onQueueChange`. */
const MAX_REPORTED_SEQS = 500;

/**
 * A user message, or a command typed at the terminal (`isLocal`, without `id` and `seq`). `isEdited`: a user has replaced the text.
 * `hasWaited`: other messages may have been stored since the message was received. `isDropped`: a user has aborted the task into which the
 * message is being sent.
 * @typedef {{id?: string, seq?: number, text?: string, attachments?: {path: string, filename?: string, mimeType?: string}[],
 *   isLocal?: boolean, isEdited?: boolean, hasWaited?: boolean, isDropped?: boolean}} Item
 */

/**
 * The item that is being handled. `readyId`: the local id of the final `ready` event, set by the handler to make the event idempotent.
 * @typedef {{item: Item, isAborted: boolean, ended: Promise<void>, readyId?: string}} Task
 */

/**
 * The messages that wait, in the order in which they run. `texts`: the texts of edited messages. `steers`: whether a message can be sent
 * into the running turn.
 * @typedef {{seqs: number[], texts: Record<number, string>, steers: boolean}} QueueReport
 */

export class TaskQueue {
  /** @type {Item[]} */
  #items = [];
  #isProcessing = false;
  #isPaused = true;
  /** The items that are being sent into the current task. @type {Item[]} */
  #steered = [];
  /** The highest received seq. */
  #receivedSeq;
  /** @type {QueueReport} */
  #report = { seqs: [], texts: {}, steers: false };

  /** @type {Task | null} */
  current = null;
  isStopped = false;

  /**
   * @param {{settings: {mode: string}, state: import('./state.mjs').SessionState,
   *   send: (message: object, localId?: string) => Promise<unknown>,
   *   handle: (item: Item, task: Task) => Promise<unknown>, interrupt: (task: Task) => Promise<unknown>,
   *   canSteer?: () => boolean, steer?: (item: Item) => Promise<boolean>, onEnd?: () => void,
   *   onQueueChange?: (report: QueueReport) => void, log: {warn: (text: string) => void}}} dependencies
   *   - `interrupt`: makes `handle` return soon
   *   - `canSteer`: whether `steer` can send a message into the current task
   *   - `steer`: sends a message into the current task. Returns false if the message was refused, and throws if that is not known
   *   - `onEnd`: called after `handle`, before `ready` is sent
   */
  constructor({
    settings,
    state,
    send,
    handle,
    interrupt,
    canSteer = () => false,
    steer = async () => false,
    onEnd = () => {},
    onQueueChange = () => {},
    log,
  }) {
    this.settings = settings;
    this.state = state;
    this.send = send;
    this.handle = handle;
    this.interrupt = interrupt;
    this.canSteer = canSteer;
    this.steer = steer;
    this.onEnd = onEnd;
    this.onQueueChange = onQueueChange;
    this.log = log;
    this.#receivedSeq = state.lastSeq;
  }

  /**
   * Starts to handle items, including items that were added before.
   * @param {{haveWaited?: boolean}} [options] `haveWaited`: whether other messages were stored since those items were added
   */
  start({ haveWaited = false } = {}) {
    if (haveWaited) for (const item of this.#items) item.hasWaited = true;
    this.#isPaused = false;
    this.wake();
  }

  /** Adds a message of the history or of a live update. Messages that no user sent, and handled messages, are skipped. */
  receive({ id, seq, content }) {
    this.#receivedSeq = Math.max(this.#receivedSeq, seq);
    const message = this.state.hasHandled(seq) ? null : messages.parseUserMessage(content);
    const text = this.state.queue.texts[seq];
    if (message) return this.add({ id, seq, ...message, ...(text === undefined ? {} : { text, isEdited: true }) });
    this.#advance();
    this.wake();
  }

  /** @param {Item} item */
  add(item) {
    // While the terminal is in control, the conversation continues there.
    if (this.settings.mode === 'local' && !item.isLocal) item.hasWaited = true;
    this.#items.push(item);
    this.#sort();
    this.wake();
    this.#reportQueue();
  }

  /** Handles items that can be handled now. To be called when a setting has changed: the queue may wait for a change of the mode. */
  wake() {
    if (!this.#isProcessing && !this.#isPaused) this.#process();
  }

  /**
   * Aborts the current task and drops the queued items. Both are recorded before this method waits, so that the next process of the session
   * runs none of them.
   * @returns {Promise<{aborted: boolean, dropped: number}>} when the task has ended
   */
  async abort() {
    const dropped = this.#items;
    const task = this.current;
    for (const item of this.#steered) item.isDropped = true;
    try {
      if (dropped.length > 0) this.#cancel(dropped, dropSentence(dropped));
      if (task) this.#recordAbort(task);
    } finally {
      if (task) {
        task.isAborted = true;
        await this.interrupt(task);
        await task.ended;
      }
    }
    this.wake();
    return { aborted: task !== null, dropped: dropped.length };
  }

  /** Returns the queued message with a seq; undefined if the message is handled, or is being handled. @param {number} seq */
  find(seq) {
    return this.#items.find((item) => item.seq === seq);
  }

  /** Replaces the text of a queued message. @param {Item} item @param {string} text */
  edit(item, text) {
    this.state.changeQueue({ texts: { ...this.state.queue.texts, [Number(item.seq)]: text } });
    Object.assign(item, { text, isEdited: true });
    this.#reportQueue();
  }

  /** Removes a queued message. @param {Item} item */
  cancel(item) {
    this.#cancel([item], `Canceled, not run:\n${describeItem(item)}`);
  }

  /** Changes the order of the queued messages. Messages that `seqs` omits follow the others. @param {number[]} seqs */
  reorder(seqs) {
    const omitted = this.#items.flatMap(({ seq }) => (seq === undefined || seqs.includes(seq) ? [] : [seq]));
    this.state.changeQueue({ order: [...seqs.filter((seq) => this.find(seq)), ...omitted] });
    this.#sort();
    this.#reportQueue();
  }

  /**
   * Sends a queued message to the agent now: into the current task if the agent takes messages, otherwise as the next task, for which the
   * current task is aborted. Other messages stay in the queue.
   * @param {Item} item
   */
  async sendNow(item) {
    // A slash command cannot be sent into a running turn.
    if (this.current && !item.text?.startsWith('/') && this.canSteer() && (await this.#trySteer(item))) return;
    this.reorder([Number(item.seq)]);
    const task = this.current;
    if (!task) this.wake();
    else if (!task.isAborted) {
      this.#recordAbort(task);
      task.isAborted = true;
      this.send(messages.note('Stopped, because another message is sent now.')).catch(() => {});
      this.interrupt(task).catch((error) => this.log.warn(`cannot abort the turn: ${error.message}`));
    }
  }

  /** Stops handling items. The next process of the session handles the queued items. */
  stop() {
    this.isStopped = true;
  }

  async #process() {
    this.#isProcessing = true;
    for (let item = this.#takeNext(); item; item = this.#takeNext()) {
      await this.#runTask(item);
      if (!this.isStopped) this.state.markHandled(item.seq);
      this.#advance();
    }
    this.#isProcessing = false;
  }

  /** Takes the next item off the queue. While the terminal is in control, messages of the web stay queued. */
  #takeNext() {
    if (this.isStopped) return undefined;
    // After a restart, messages arrive by their seqs, so the message that must run first may not have arrived yet.
    const isOrderReceived = this.state.queue.order.every((seq) => seq <= this.#receivedSeq);
    const index = this.#items.findIndex((item) => item.isLocal || (this.settings.mode === 'remote' && isOrderReceived));
    return index < 0 ? undefined : this.#items.splice(index, 1)[0];
  }

  /** Sorts the items by the order that a user has set. */
  #sort() {
    const { order } = this.state.queue;
    const rankOf = (/** @type {Item} */ { seq }) => (seq !== undefined && order.includes(seq) ? order.indexOf(seq) : order.length);
    this.#items.sort((a, b) => rankOf(a) - rankOf(b));
  }

  /** Sends a message into the current task. Returns false if the message was refused and is queued again. A user may drop it meanwhile. */
  async #trySteer(item) {
    const seq = Number(item.seq);
    const { state } = this;
    const localId = randomUUID();
    const note = startNote(item);
    // Recorded before the message is sent: after a crash, the message must not be sent again, because the agent may have acted on it.
    state.changeQueue({ sending: { ...state.queue.sending, [seq]: { localId, note } } });
    this.#items = this.#items.filter((queued) => queued !== item);
    this.#steered.push(item);
    let isRefused = false;
    try {
      isRefused = !(await this.steer(item));
    } catch (error) {
      this.log.warn(`The agent may not have received a message: ${error.message}`);
    }
    const { [seq]: _, ...sending } = state.queue.sending;
    try {
      if (!isRefused) this.#recordHandled([item], note, localId, { sending });
      else if (item.isDropped) this.#cancel([item], dropSentence([item]), { sending });
      else state.changeQueue({ sending });
    } finally {
      this.#steered = this.#steered.filter((steered) => steered !== item);
      if (isRefused && !item.isDropped) this.#items.unshift(item);
    }
    return !isRefused || item.isDropped === true;
  }

  /** @param {Item[]} items @param {string} sentence the note in the conversation @param {Partial<StoredQueue>} [changes] of the state */
  #cancel(items, sentence, changes) {
    const canceled = items.flatMap(({ id }) => (id === undefined ? [] : [{ id, change: /** @type {const} */ ('canceled') }]));
    this.#recordHandled(items, messages.note(sentence, canceled), randomUUID(), changes);
  }

  /** Records that a task's message is handled, although the task has not ended. @param {Task} task */
  #recordAbort({ item: { seq } }) {
    if (seq === undefined || this.state.hasHandled(seq)) return;
    this.state.changeQueue({ handled: [...this.state.queue.handled, seq] });
  }

  /** Records that items are handled, together with a note, which is sent until the hub has stored the note. */
  #recordHandled(items, note, localId = randomUUID(), changes = {}) {
    const { handled, notes } = this.state.queue;
    const seqs = items.flatMap(({ seq }) => seq ?? []);
    this.state.changeQueue({ ...changes, handled: [...handled, ...seqs], notes: { ...notes, [localId]: note } });
    this.#items = this.#items.filter((item) => !items.includes(item));
    this.#advance();
    // Clients learn from the note why the messages leave the queue, so the note is sent first.
    this.#sendNote(localId, note).then(() => this.#reportQueue());
  }

  #sendNote(localId, note) {
    return this.send(note, localId).catch((error) => this.log.warn(error.message));
  }

  #reportQueue() {
    const waiting = this.#items.filter(({ seq }) => seq !== undefined).slice(0, MAX_REPORTED_SEQS);
    const texts = Object.fromEntries(waiting.flatMap(({ seq, text, isEdited }) => (isEdited ? [[seq, text]] : [])));
    const report = { seqs: waiting.map(({ seq }) => Number(seq)), texts, steers: this.canSteer() };
    if (isDeepStrictEqual(report.seqs, this.#report.seqs) && isDeepStrictEqual(texts, this.#report.texts)) return;
    this.#report = report;
    this.onQueueChange(report);
  }

  /** Records the seq up to which all messages are handled. */
  #advance() {
    if (this.isStopped) return;
    const items = [...this.#items, ...this.#steered, ...(this.current ? [this.current.item] : [])];
    const waiting = items.flatMap(({ seq }) => (seq === undefined || this.state.hasHandled(seq) ? [] : [seq]));
    this.state.advance(Math.min(this.#receivedSeq + 1, ...waiting) - 1);
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
      if (this.#needsStartNote(item)) await this.recordStart(item);
      this.#reportQueue();
      if (task.isAborted) await this.send(messages.text('Aborted.'));
      else if (!this.isStopped) await this.handle(item, task);
    } catch (error) {
      this.log.warn(`cannot handle a message: ${error.message}`);
      if (!this.isStopped) await this.send(messages.failure(`Error: ${error.message}`)).catch(() => {});
    }
    this.onEnd();
    if (!this.isStopped) await this.send(messages.ready(), task.readyId).catch((error) => this.log.warn(error.message));
    for (const queued of this.#items) queued.hasWaited = true;
    this.current = null;
    end();
  }

  /** Whether the agent receives an item with an edited text, or later than the conversation shows: other messages follow the item there. */
  #needsStartNote(/** @type {Item} */ { seq = 0, isLocal, hasWaited, isEdited }) {
    return !isLocal && (isEdited || hasWaited || seq < this.state.openedSeq);
  }

  /** Records in the conversation that the agent receives a message now. @param {Item} item */
  recordStart(item) {
    const localId = randomUUID();
    const note = startNote(item);
    this.state.changeQueue({ notes: { ...this.state.queue.notes, [localId]: note } });
    return this.#sendNote(localId, note);
  }
}

/** The note that an abort has dropped items. @param {Item[]} items */
const dropSentence = (items) => `Dropped, not run:\n${items.map(describeItem).join('\n')}`;

/** The text of an item, and the names of its attachments. */
const describeItem = (/** @type {Item} */ { text, attachments = [] }) =>
  [text, ...attachments.map(({ path, filename }) => filename ?? path)].filter(Boolean).join('\n');

/** The note that the agent receives a message that has waited. @param {Item} item */
const startNote = ({ id = '', text = '', isEdited }) =>
  isEdited
    ? messages.note(`The agent receives the edited message:\n${text}`, [{ id, change: 'started', text }])
    : messages.queueRecord([{ id, change: 'started' }]);
