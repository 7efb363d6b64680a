/**
 * An agent replays its history when it loads a session. This module stores the history at the hub: the whole history of an imported
 * session, and what was added to a session that was continued in the agent's own terminal program.
 *
 * `state.saved.history` says what the next start of the agent does: `import` or `update`. The field is deleted once the hub has stored
 * all messages. After a crash, the next process therefore replays the history again, and the hub recognizes the messages that it has.
 */

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { AcpSession } from './acp-session.mjs';
import { Replay } from './replay.mjs';
import { parseUserMessageOfReplay } from './translate/records.mjs';

/** Interval at which the number of stored messages is published. */
const PROGRESS_INTERVAL_MS = 1000;

const FLUSH_TIMEOUT_MS = 60_000;

/**
 * The options with which the agent loads its session. `planFlavor`: the flavor in records of plans
 * @typedef {Omit<Parameters<typeof AcpSession.open>[0], 'mustLoad' | 'onUpdate' | 'onPermission' | 'onElicitation'>
 *   & {planFlavor: string}} LoadOptions
 */

const toReplayOptions = (/** @type {LoadOptions} */ { launch, planFlavor, sessionId }) => ({
  agent: launch.name ?? '',
  flavor: planFlavor,
  sessionId,
});

export class History {
  /** @type {Replay | null} */
  #replay = null;
  #messageCount = 0;
  #publishedAt = 0;
  #firstText = '';
  /** @type {() => void} */
  #resolveStarted;
  /** Resolves when the agent replays the first message. @type {Promise<void>} */
  started = new Promise((resolve) => {
    this.#resolveStarted = resolve;
  });

  /**
   * @param {{state: import('session-gateway-cli-kit/state').SessionState, save: (fields: object) => void,
   *   publish: (fields: object) => void, flush: (timeoutMs: number) => Promise<boolean>, isStopped: () => boolean}} dependencies
   *   `save`: changes fields of `state.saved`; `publish`: changes fields of the session's metadata
   */
  constructor({ state, save, publish, flush, isStopped }) {
    this.state = state;
    this.save = save;
    this.publish = publish;
    this.flush = flush;
    this.isStopped = isStopped;
  }

  /** The kind of replay that the next start of the agent must do; undefined for none. @returns {'import' | 'update' | undefined} */
  get pendingReplay() {
    const { history } = this.state.saved ?? {};
    // Without the file that records what the hub has, an update would store all messages again, so there is no update.
    return history === 'update' && !existsSync(this.#knownTurnsFile) ? undefined : history;
  }

  /**
   * To be called before the agent loads the session.
   * @param {LoadOptions} options
   */
  begin(options) {
    this.#messageCount = 0;
    this.#replay = new Replay({
      ...toReplayOptions(options),
      knownIdCounts: this.pendingReplay === 'update' ? this.#readKnownTurns() : new Map(),
    });
  }

  /**
   * Starts the agent, and records which turns its history has. So the next start stores only later messages.
   * @param {LoadOptions} options
   */
  async recordKnownTurns(options) {
    const { launch, env } = options;
    const replay = new Replay(toReplayOptions(options));
    const refuse = async () => ({ outcome: { outcome: 'cancelled' } });
    const onUpdate = (/** @type {any} */ update, /** @type {boolean} */ isReplayed) => void (isReplayed && replay.onUpdate(update));
    await launch.entry?.repairRecords?.(env);
    const session = await AcpSession.open({ ...options, mustLoad: true, onUpdate, onPermission: refuse, onElicitation: refuse });
    await session.close();
    await launch.entry?.repairRecords?.(env);
    replay.end();
    this.#writeKnownTurns(replay.idCounts);
    this.save({ history: 'update' });
  }

  /** @returns {import('./translate/records.mjs').Record[]} the records to send */
  onUpdate(update) {
    return this.#countMessages(this.#replay.onUpdate(update));
  }

  /** To be called when the agent has loaded the session. @returns {import('./translate/records.mjs').Record[]} the records to send */
  end() {
    return this.#countMessages(this.#replay.end());
  }

  /**
   * Waits until the hub has stored the messages.
   * @returns {Promise<{messageCount: number, firstText: string}>} `firstText`: the first message of the user
   */
  async complete() {
    while (!(await this.flush(FLUSH_TIMEOUT_MS))) if (this.isStopped()) throw new Error('The session has ended.');
    this.save({ history: undefined });
    rmSync(this.#knownTurnsFile, { force: true });
    this.publish({ importedMessages: undefined });
    return { messageCount: this.#messageCount, firstText: this.#firstText };
  }

  /** Counts the messages, publishes the progress of an import, and returns the records. */
  #countMessages(records) {
    for (const record of records) {
      if (record.type !== 'message') continue;
      this.#messageCount += 1;
      this.#firstText ||= parseUserMessageOfReplay(record.content) ?? '';
      this.#resolveStarted();
    }
    if (this.pendingReplay === 'import' && this.#messageCount > 0 && Date.now() - this.#publishedAt >= PROGRESS_INTERVAL_MS) {
      this.#publishedAt = Date.now();
      this.publish({ importedMessages: this.#messageCount });
    }
    return records;
  }

  get #knownTurnsFile() {
    return this.state.pathFor('history.json');
  }

  #readKnownTurns() {
    return new Map(JSON.parse(readFileSync(this.#knownTurnsFile, 'utf8')));
  }

  #writeKnownTurns(idCounts) {
    const temporary = `${this.#knownTurnsFile}.${process.pid}`;
    writeFileSync(temporary, JSON.stringify([...idCounts]), { mode: 0o600 });
    renameSync(temporary, this.#knownTurnsFile);
  }
}
