/**
 * Translates the history that an agent replays when it loads a session. The local ids of the messages are derived from the history, so
 * that the hub stores each message of the history once, however often the agent replays the history:
 *
 *     HASH_OF_SESSION.TURN.NUMBER
 *
 * A turn begins with a message of the user. TURN is a hash of this message, NUMBER counts the ids within the turn. An id therefore does not
 * depend on earlier turns: an agent drops the oldest turns from its history when it compacts a conversation.
 */

import { createHash } from 'node:crypto';
import { quirksOf } from './translate/agents.mjs';
import { userMessage } from './translate/records.mjs';
import { blockText } from './translate/tool-output.mjs';
import { createTranslator } from './translate/translator.mjs';
import { asObject, isText } from './translate/values.mjs';

/** Limit on a message of the user, in characters. */
const MAX_USER_CHARS = 200_000;

/** The turn of the messages that a replay may have before the first message of the user. */
const INITIAL_TURN = 'start';

const hashOf = (text) => createHash('sha256').update(text).digest('hex').slice(0, 16);

export class Replay {
  #translator;
  #quirks;
  #prefix;
  #knownIdCounts;
  #turn = INITIAL_TURN;
  /** The number of ids in the current turn. */
  #idCount = 0;
  /** How often each message of the user has occurred. @type {Map<string, number>} */
  #occurrences = new Map();
  /** The message of the user that is being read. @type {{messageId?: string, texts: string[]} | null} */
  #userMessage = null;

  /** The number of ids in each turn of this replay. @type {Map<string, number>} */
  idCounts = new Map();

  /**
   * @param {{agent: string, flavor: string, sessionId: string, knownIdCounts?: Map<string, number>}} options `sessionId`: the agent's id
   *   of the session; `knownIdCounts`: `idCounts` of an earlier replay, whose messages are left out
   */
  constructor({ agent, flavor, sessionId, knownIdCounts = new Map() }) {
    this.#quirks = quirksOf(agent);
    this.#prefix = hashOf(`${agent}\n${sessionId}`);
    this.#knownIdCounts = knownIdCounts;
    // The translator splits texts also by their age. With a constant clock, it splits them at the same places in every replay.
    this.#translator = createTranslator({ agent, flavor, newId: () => this.#newId(), now: () => 0, isReplay: true });
  }

  /** Translates a replayed update. @returns {import('./translate/records.mjs').Record[]} */
  onUpdate(update) {
    const { sessionUpdate, content } = asObject(update);
    const isUser = sessionUpdate === 'user_message_chunk';
    if (isUser || sessionUpdate === 'agent_message_chunk') {
      const { audience } = asObject(content?.annotations);
      const isForModel = Array.isArray(audience) && !audience.includes('user');
      if (isForModel || this.#quirks.hiddenReplay?.test(blockText(content))) return [];
    }
    if (isUser) return this.#onUserChunk(update);
    const isMessage = /^(agent_|tool_call|plan)/.test(String(sessionUpdate));
    return [...(isMessage ? this.#startTurn() : []), ...this.#selectNew(this.#translator.onUpdate(update))];
  }

  /** Returns the messages at the end of the replay. */
  end() {
    return [...this.#startTurn(), ...this.#endTurn()];
  }

  #onUserChunk({ content, messageId }) {
    const text = content?.type === 'image' ? '[image]' : blockText(content);
    if (!isText(text)) return [];
    const id = isText(messageId) ? messageId : undefined;
    const started = this.#userMessage && this.#userMessage.messageId !== id ? this.#startTurn() : [];
    this.#userMessage ??= { messageId: id, texts: [] };
    this.#userMessage.texts.push(text.slice(0, MAX_USER_CHARS));
    return started;
  }

  #endTurn() {
    const ended = this.#selectNew(this.#translator.endTurn('end_turn'));
    this.idCounts.set(this.#turn, this.#idCount);
    return ended;
  }

  /** Ends the current turn and begins the turn of the message that was read, if there is one. */
  #startTurn() {
    if (!this.#userMessage) return [];
    const { messageId, texts } = this.#userMessage;
    this.#userMessage = null;
    const ended = this.#endTurn();
    const text = texts.join('\n').slice(0, MAX_USER_CHARS).toWellFormed();
    const hash = hashOf(this.#quirks.hasStableMessageIds && messageId !== undefined ? messageId : text);
    const occurrence = (this.#occurrences.get(hash) ?? 0) + 1;
    this.#occurrences.set(hash, occurrence);
    this.#turn = occurrence === 1 ? hash : `${hash}-${occurrence}`;
    this.#idCount = 0;
    return [...ended, ...this.#selectNew([userMessage(this.#newId(), text)])];
  }

  #newId() {
    const id = `${this.#prefix}.${this.#turn}.${this.#idCount}`;
    this.#idCount += 1;
    return id;
  }

  /** Leaves out the messages of the known turns. */
  #selectNew(records) {
    return records.filter((record) => record.type !== 'message' || !this.#isKnown(record.localId));
  }

  #isKnown(localId) {
    const [, turn, number] = localId.split('.');
    return Number.parseInt(number, 10) < (this.#knownIdCounts.get(turn) ?? 0);
  }
}
