/** Forks of a session: a new session with the history of another session before one of its messages. */

import { parseUserMessage } from 'session-gateway-cli-kit/messages';
import { copyUpload } from 'session-gateway-cli-kit/uploads';
import { parentCallIdOf } from './translate/subagents.mjs';
import { asList, cutText, isText } from './translate/values.mjs';

/** Limit on the turns whose last message is recorded. */
const MAX_TURNS = 500;
const MAX_ID_CHARS = 200;

/** The progress of the copy of a history is saved after this number of messages, once they are stored. */
const SAVE_INTERVAL = 200;
const FLUSH_TIMEOUT_MS = 60_000;

/** Limits on the history that is sent as text to an agent that cannot fork its own session after the message. */
const MAX_CONTEXT_CHARS = 60_000;
const MAX_LINE_CHARS = 4000;

/**
 * The turns of a session, which are recorded for forks: an agent forks its session after the last message of a turn.
 * @typedef {{seq: number, messageId?: string}} Turn `seq`: of the prompt; `messageId`: the agent's id of the last message
 */
export class TurnLog {
  #messageId;

  /** @param {{read: () => Turn[] | undefined, save: (turns: Turn[]) => void}} store */
  constructor({ read, save }) {
    this.read = read;
    this.save = save;
  }

  startTurn() {
    this.#messageId = undefined;
  }

  onUpdate(update) {
    if (update?.sessionUpdate !== 'agent_message_chunk' || parentCallIdOf(update) !== undefined) return;
    if (isText(update.messageId) && update.messageId.length <= MAX_ID_CHARS) this.#messageId = update.messageId;
  }

  /** @param {number} seq of the prompt */
  endTurn(seq) {
    this.save([...(this.read() ?? []), { seq, messageId: this.#messageId }].slice(-MAX_TURNS));
  }
}

/**
 * What a forked session needs until its agent and its history are complete.
 * @typedef {object} Fork
 * @property {string} sessionId the hub's id of the original session
 * @property {number} seq the history ends before this message
 * @property {number} copiedSeq the messages of the original session up to this seq are copied
 * @property {string} agentSessionId the agent's id of the original session
 * @property {string} [directory] of the original session
 * @property {boolean} isWhole whether the agent's whole session is the history
 * @property {string} [messageId] the agent's id of the last message of the history, if it is known
 * @property {string} context the text of the history
 */

/** The start of a session with the history of another session. The original session does not change. */
export class ForkedSession {
  /**
   * @param {{options: import('session-gateway-cli-kit/app').ServingOptions, uploads: string, read: () => Record<string, any> | undefined,
   *   save: (fields: object) => void, send: (content: object, localId: string) => Promise<unknown>,
   *   flush: (timeoutMs: number) => Promise<boolean>, notify: (sentence: string) => void, isStopped: () => boolean}} dependencies
   *   `read` and `save`: the state of the agent
   */
  constructor({ options, uploads, read, save, send, flush, notify, isStopped }) {
    this.options = options;
    this.uploads = uploads;
    this.read = read;
    this.save = save;
    this.send = send;
    this.flush = flush;
    this.notify = notify;
    this.isStopped = isStopped;
  }

  /** @returns {Fork | undefined} */
  get #fork() {
    return this.read()?.fork;
  }

  /**
   * Reads the history of the original session, if this session is a fork that was not started before.
   * @returns {Promise<Record<string, any> | null>} the original session
   * @throws {Error} when the state of the original session is not on this machine
   */
  async prepare() {
    const { client, store, fork } = this.options;
    if (!fork || this.read()) return null;
    const { sessionId, seq } = fork;
    const source = await client.getSession(sessionId);
    const { saved = {}, lastSeq = 0, queue } = store.readSession(source.tag, sessionId);
    if (!isText(saved.sessionId)) throw new Error(`This machine has no state of session ${sessionId}: its agent was not started here.`);
    const historyText = new HistoryText();
    let promptSeq;
    await readHistory({ client, sessionId, fromSeq: 0, seq }, ({ content, seq: at }) => {
      historyText.add(content);
      if (content?.role === 'user') promptSeq = parseUserMessage(content) ? at : undefined;
    });
    const messageId = asList(saved.turns).find((turn) => turn.seq === promptSeq)?.messageId;
    // The highest handled seq, because users can reorder the queue: a message may be handled before an earlier message.
    const isWhole = Math.max(lastSeq, ...(queue?.handled ?? [])) < seq;
    const details = { agentSessionId: saved.sessionId, directory: source.metadata?.path, isWhole, messageId, context: historyText.text };
    const { agent, command, options } = saved;
    const hasHistory = historyText.text !== '';
    this.save({
      agent,
      command,
      ...(options ? { options } : {}),
      ...(hasHistory ? { fork: { sessionId, seq, copiedSeq: 0, ...details } } : {}),
    });
    return source;
  }

  /**
   * The session of the agent to fork, its directory, and the message after which to fork it; undefined if the agent's session or the
   * message is unknown.
   */
  get request() {
    const { agentSessionId, directory, isWhole, messageId } = this.#fork ?? {};
    if (agentSessionId === undefined || (!isWhole && messageId === undefined)) return undefined;
    return { sessionId: agentSessionId, directory, ...(isWhole ? {} : { messageId }) };
  }

  /**
   * To be called when the agent has opened its first session. Adds a notice about the fork to the conversation.
   * @param {import('./acp-session.mjs').AcpSession} session
   * @param {string} title of the agent
   */
  onOpened({ forkFailure }, title) {
    const fork = this.#fork;
    if (!fork || fork.agentSessionId === undefined) return;
    const isForked = this.request !== undefined && forkFailure === null;
    const { agentSessionId: _id, directory: _directory, messageId: _messageId, context, ...others } = fork;
    // Like the reason of a denial, the text precedes the next prompt that is no slash command.
    this.save({ fork: others, hasPrompt: true, ...(isForked ? {} : { denials: [toPreface(context)] }) });
    const reason = forkFailure ?? 'it does not know this point of the conversation';
    this.notify(
      isForked
        ? `This is a fork: ${title} remembers the conversation above.`
        : `This is a fork. ${title} does not remember the conversation above: ${reason}. With the next message it gets the texts of the conversation, without the output of tools.`,
    );
  }

  /** Copies the history to this session. The copies have the local ids of the originals, so that a repeated copy adds nothing. */
  async copy() {
    const { sessionId, seq, copiedSeq } = this.#fork ?? {};
    if (sessionId === undefined || copiedSeq >= seq - 1) return;
    const saveProgress = async (lastCopiedSeq) => {
      const isStored = await this.flush(FLUSH_TIMEOUT_MS);
      if (isStored && !this.isStopped()) this.save({ fork: { ...this.#fork, copiedSeq: lastCopiedSeq } });
    };
    let count = 0;
    await readHistory({ client: this.options.client, sessionId, fromSeq: copiedSeq, seq }, async (message) => {
      if (this.isStopped()) return;
      const content = toCopy(message.content);
      if (content) await this.send(await this.#withUploads(content), message.localId ?? `fork-${message.seq}`);
      count += 1;
      if (count % SAVE_INTERVAL === 0) await saveProgress(message.seq);
    });
    // Not awaited, so that later messages follow the history at once.
    saveProgress(seq - 1).catch(() => {});
  }

  /** Copies the attachments of a message to this session. Returns the message with the paths of the copies. */
  async #withUploads(content) {
    const attachments = asList(content?.content?.attachments);
    if (content?.role !== 'user' || attachments.length === 0) return content;
    const source = this.options.store.uploadFolder(this.#fork.sessionId);
    const copies = attachments.map(async (file) => {
      const copy = await copyUpload(source, this.uploads, file?.path).catch(() => null);
      return copy === null ? file : { ...file, path: copy };
    });
    return { ...content, content: { ...content.content, attachments: await Promise.all(copies) } };
  }
}

const toPreface = (context) =>
  [
    'This session continues an earlier conversation, which you do not remember. These are its texts, without the output of tools:',
    '<conversation>',
    context,
    '</conversation>',
  ].join('\n\n');

/** Reads the messages of a session after `fromSeq` and before `seq`, in order. */
async function readHistory({ client, sessionId, fromSeq, seq }, onMessage) {
  for (let after = fromSeq; after < seq - 1; ) {
    const page = await client.readMessagesAfter(sessionId, after);
    if (page.length === 0) return;
    for (const message of page) {
      if (message.seq >= seq) return;
      await onMessage(message);
    }
    after = page.at(-1).seq;
  }
}

/** Returns the copy of a message; null for the end of a turn, which would notify the user. */
function toCopy(content) {
  if (content?.content?.type === 'event' && content.content.data?.type === 'ready') return null;
  // The copy is marked, so that the agent does not get a copied message of the user as a prompt.
  return content?.role === 'user' ? { ...content, meta: { ...content.meta, sentFrom: 'fork' } } : content;
}

/** Collects the text of a history. Keeps only the end of a long text. */
class HistoryText {
  #lines = [];
  #length = 0;

  add(content) {
    const line = cutText(lineOf(content).trim(), MAX_LINE_CHARS);
    if (line === '') return;
    this.#lines.push(line);
    this.#length += line.length;
    while (this.#length > MAX_CONTEXT_CHARS) this.#length -= this.#lines.shift().length;
  }

  get text() {
    return this.#lines.join('\n\n');
  }
}

/** Returns the text of a message for an agent; empty for the output of tools and for thoughts. */
function lineOf(content) {
  const user = content?.role === 'user' && content.content?.text;
  if (isText(user)) return `User: ${user}`;
  const blocks = asList(content?.content?.data?.message?.content);
  return blocks
    .map((block) => {
      if (block?.type === 'text' && isText(block.text)) return `Assistant: ${block.text}`;
      if (block?.type !== 'tool_use') return '';
      const { command, file_path: file, description } = block.input ?? {};
      const detail = [command, file, description].find(isText);
      return `Assistant used ${block.name}${detail ? `: ${detail}` : ''}`;
    })
    .filter(Boolean)
    .join('\n');
}
