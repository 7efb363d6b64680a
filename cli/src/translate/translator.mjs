/**
 * Translates the agent's messages of the Agent Client Protocol (version 1) into records for the hub. Pure: no I/O and no timers. Each
 * process of an agent has its own translator.
 *
 *     const translator = createTranslator({ agent: 'claude', flavor: 'alpha' });
 *
 *     onUpdate(update) -> Record[]               for each `session/update`: `params.update`
 *     onReplayedUpdate(update) -> Record[]       for updates that replay a loaded session: only records of the session's state
 *     onPermissionRequest(params) -> {records, request, fullArguments?}    for `session/request_permission`
 *     onElicitation(params) -> {records, request, fullArguments?}          for `elicitation/create`; throws unless the mode is `form`
 *     responseTo(id, decision) -> object         the JSON-RPC result for the request with this id at the hub
 *     onPermissionResolved(id, decision) -> Record[]       after `responseTo`, for requests of both kinds
 *     endTurn(stopReason) -> Record[]            after the reply of `session/prompt`, and the updates that an agent may send after it
 *     closeOpenCalls(reason) -> Record[]         when the agent crashed, or does not end its calls
 *     hasEndedCall(id) -> boolean                whether the call of an open request has ended
 *     flush() -> Record[]                        ends the current message, for updates outside of a turn
 *     takeDueRecords() -> Record[]               the text and output that are due; call it about once a second
 *     takeDeltas() -> Delta[]                    live text since the last call
 *     runningCall -> {name, input} | undefined   what the agent is doing
 *     lastText -> string                         the agent's last message in this turn
 *     isWorking -> boolean                       whether a text or a call is not complete
 *     openCalls -> {id, name, input}[]           calls that the next process must close if this process crashes
 *
 * - Record: see `records.mjs`. The caller sends the messages to the hub in order, each with its `localId`.
 * - Delta: `{id, kind: 'text' | 'thinking', text}`. `text` is the next piece of a message that is not complete yet. The
 *   complete message follows as a record whose `localId` is this `id`.
 * - `request`: `{id, tool, arguments, createdAt}`. All fields except `id` form the value of
 *   `agentState.requests[id]`. The id is the id of the tool call, so that clients show the request with the call.
 * - `records` beside a request: the call of the request, if the call is not stored yet.
 * - `fullArguments` beside a request: all its arguments, only if `request.arguments` is shortened.
 * - decision: `{status: 'approved' | 'denied' | 'canceled', decision?, reason?, answers?}`.
 *
 * The caller may answer a request without asking the user, if a rule covers the request. Only the user may answer a request with
 * `arguments.questions`. After a turn, the caller sends the event `ready` if no prompt is queued.
 */

import { randomUUID } from 'node:crypto';
import { describeCall } from 'session-gateway-cli-kit/activity';
import { quirksOf } from './agents.mjs';
import { toCommands } from './commands.mjs';
import { retryActivity } from './model-retries.mjs';
import { OpenRequests } from './open-requests.mjs';
import { questionsOfCall, toQuestions } from './questions.mjs';
import * as records from './records.mjs';
import { describeRefusal, describeStop } from './sentences.mjs';
import { STATE_UPDATES } from './state-updates.mjs';
import { parentCallIdOf, Subagents } from './subagents.mjs';
import { TextBuffer } from './text-buffer.mjs';
import { ToolCalls } from './tool-calls.mjs';
import { toPlanLimits } from './plan-limits.mjs';
import { blockText } from './tool-output.mjs';
import { asList, asObject, firstLine, isText, limitSize } from './values.mjs';

const MAX_SUMMARY_CHARS = 200;
/** A text of the agent that is at least this long is not said twice in a row. */
const MIN_REPEATED_CHARS = 100;
const MAX_TODOS = 200;
/** Limit on the JSON of one todo, in bytes. The hub accepts lists of 250,000 bytes. */
const MAX_TODO_BYTES = 1200;

/** Matches the title that an agent generates for a session without a title. */
const PLACEHOLDER_TITLE = /^New session - /;

/** The severities that become names of events. Others do not, so that an agent cannot send an event of the hub, such as `ready`. */
const SEVERITIES = ['info', 'warning', 'error'];

/**
 * @typedef {{agent: string, flavor?: string, newId?: () => string, now?: () => number, usedIds?: Iterable<string>,
 *   isReplay?: boolean}} Options
 *   `agent`: the name of the agent, known or not; `flavor`: the kind of agent in the hub's protocol, such as `alpha`; `usedIds`: the ids of
 *   earlier requests in the session's agent state. New requests get other ids, although some agents restart their numbering;
 *   `isReplay`: whether the updates are a history that the agent replays
 */
export const createTranslator = (/** @type {Options} */ options) => new Translator(options);

/** Returns the summary for an agent's title of a session; null for a placeholder. */
export function titleToSummary(title) {
  return isText(title) && title.trim() !== '' && !PLACEHOLDER_TITLE.test(title) ? firstLine(title, MAX_SUMMARY_CHARS) : null;
}

class Translator {
  #quirks;
  #flavor;
  #newId;
  #text;
  #calls;
  #subagents;
  #requests;
  /** Whether a call was denied in this turn, and the agent has sent no text and no new call since. */
  #endsWithDenial = false;
  /** The chunks of the summaries of compactions in progress, joined, by the compaction's id. */
  #summaryChunks = new Map();
  /** The agent's last message in this turn. Chunks without an id are one message. @type {{id?: string, text: string}} */
  #lastMessage = { text: '' };
  /** The last failed request to the model, if the agent has not gone on since. @type {import('./model-retries.mjs').ModelRetry | null} */
  #retry = null;
  /** Whether the next message is the error with which Codex ends a turn. */
  #endsWithError = false;
  /** The notices that are sent once in a turn. @type {Set<string>} */
  #notices = new Set();
  /** The JSON of the last record of each type, to drop repeated records. */
  #lastJson = new Map();

  /** @param {Options} options */
  constructor({ agent, flavor = 'alpha', newId = randomUUID, now = Date.now, usedIds = [], isReplay = false }) {
    const quirks = isReplay ? { ...quirksOf(agent), usesCommandAsTitle: false } : quirksOf(agent);
    this.#quirks = quirks;
    this.#flavor = flavor;
    this.#newId = newId;
    this.#text = new TextBuffer({ newId, now });
    this.#subagents = new Subagents({ newId, now });
    this.#calls = new ToolCalls({ quirks, newId, now, usedIds: [...usedIds].flatMap((id) => [`call ${id}`, `request ${id}`]) });
    this.#requests = new OpenRequests({ calls: this.#calls, newId, now });
  }

  get openCalls() {
    return this.#calls.openCalls.map(({ id, name, input }) => ({ id, name, input }));
  }

  /** The last call that runs; undefined if none does. */
  get runningCall() {
    return this.#calls.openCalls.findLast(({ status }) => status !== 'pending');
  }

  get lastText() {
    return this.#lastMessage.text;
  }

  get isWorking() {
    return this.#text.isPending || this.#subagents.isPending || this.#calls.openCalls.length > 0;
  }

  /** What the agent is doing: the last call that runs, or the repetition of a request to the model; null if it does neither. */
  get activity() {
    if (this.runningCall) return describeCall(this.runningCall);
    return this.#retry && retryActivity(this.#retry);
  }

  onUpdate(update) {
    const info = this.#infoOf(update);
    if (info !== undefined) return this.#onInfo(info);
    if (!STATE_UPDATES.has(update?.sessionUpdate)) this.#retry = null;
    const subagent = this.#subagentOf(update);
    if (subagent)
      return [...this.#withPendingText(this.#calls.ensureStored(parentCallIdOf(update))), ...this.#onSubagentUpdate(update, subagent)];
    switch (update?.sessionUpdate) {
      case 'agent_message_chunk':
        return this.#onMessageChunk(update);
      case 'agent_thought_chunk':
        return this.#text.append('thinking', blockText(update.content), update.messageId ?? undefined);
      case 'tool_call':
      case 'tool_call_update':
        return this.#onToolCall(update);
      case 'plan':
        return this.#onPlan(update);
      case 'available_commands_update':
        return this.#recordIfChanged('commands', { commands: toCommands(update.availableCommands) });
      case 'session_info_update':
        this.#endsWithError ||= update._meta?.codex?.threadStatus?.type === 'systemError';
        return this.#onTitle(update);
      case 'usage_update':
        return this.#onUsage(update);
      case 'current_mode_update':
        return isText(update.currentModeId) ? [{ type: 'mode', mode: update.currentModeId }] : [];
      case 'config_option_update':
        return [{ type: 'options', options: asList(update.configOptions) }];
      case 'notice':
        return this.#event(SEVERITIES.includes(update.severity) ? update.severity : 'notice', joinTexts(update.title, update.description));
      case 'model_retry':
        return this.#onRetry(update);
      case 'compaction_update':
      case 'compaction_summary_chunk':
        return this.#onCompaction(update);
      // `user_message_chunk` repeats the prompt. Later versions of the protocol may have other updates.
      default:
        return [];
    }
  }

  onReplayedUpdate(update) {
    return STATE_UPDATES.has(update?.sessionUpdate) ? this.onUpdate(update) : [];
  }

  onPermissionRequest(params) {
    const toolCall = asObject(params.toolCall);
    const questions = toolCall._meta?.qwenInteractionKind === 'user_question' ? questionsOfCall(toolCall.rawInput) : [];
    const { call, records: stored } = this.#calls.storeForRequest(toolCall, this.#subagentOf(toolCall)?.callId);
    const added = this.#requests.add({ params, call, questions, isForm: false });
    return { records: this.#withPendingText(stored), ...added };
  }

  onElicitation(params) {
    if (params.mode !== undefined && params.mode !== 'form') throw new Error(`Questions of mode ${params.mode} are not supported.`);
    const call = this.#calls.find(params.toolCallId);
    const questions = toQuestions(params, call?.rawInput?.questions);
    const stored = call && !call.isStored && !call.isEnded ? this.#calls.storeForRequest({ toolCallId: params.toolCallId }).records : [];
    const added = this.#requests.add({ params, call, questions, isForm: true });
    return { records: this.#withPendingText(stored), ...added };
  }

  responseTo(id, decision) {
    return this.#requests.responseTo(id, decision);
  }

  hasEndedCall(id) {
    return this.#requests.hasEndedCall(id);
  }

  onPermissionResolved(id, decision) {
    const { call, isAllowed } = this.#requests.resolve(id, decision);
    if (!call) return [];
    if (decision.status === 'approved') {
      if (!isAllowed) return this.#withPendingText(this.#calls.fail(call, 'Not run: the agent offers no approval of this call alone.'));
      this.#calls.onApproved(call);
      return [];
    }
    this.#endsWithDenial ||= decision.status === 'denied' && !call.isEnded;
    return this.#withPendingText(this.#calls.fail(call, describeRefusal(decision)));
  }

  endTurn(stopReason) {
    const isCanceled = stopReason === 'cancelled';
    const ended = [
      ...this.#flushTexts(),
      ...(isCanceled ? this.#calls.failAll('Aborted.') : this.#calls.endAllWithTurn((call) => this.#isBackground(call))),
    ];
    const sentence = isCanceled ? this.#describeCancel() : describeStop(stopReason);
    this.#endsWithDenial = false;
    this.#forgetTurn();
    this.#calls.forgetOld();
    return sentence ? [...ended, this.#message(records.text(sentence))] : ended;
  }

  closeOpenCalls(reason) {
    this.#forgetTurn();
    return [...this.#flushTexts(), ...this.#calls.failAll(reason)];
  }

  flush() {
    return this.#flushTexts();
  }

  takeDueRecords() {
    return [...this.#text.flushIdle(), ...this.#subagents.flushIdle(), ...this.#calls.takeDueOutput()];
  }

  takeDeltas() {
    return this.#text.takeDeltas();
  }

  #subagentOf(update) {
    return this.#subagents.find(parentCallIdOf(update), (toolCallId) => this.#calls.find(toolCallId));
  }

  /** Handles the texts and calls of a sub-agent. Its plan, usage and other state do not concern the session. */
  #onSubagentUpdate(update, subagent) {
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
        return this.#subagents.append(subagent, 'text', blockText(update.content), update.messageId ?? undefined);
      case 'agent_thought_chunk':
        return this.#subagents.append(subagent, 'thinking', blockText(update.content), update.messageId ?? undefined);
      case 'tool_call':
      case 'tool_call_update': {
        const text = this.#calls.isNew(update) ? this.#subagents.flush(parentCallIdOf(update)) : [];
        return [...text, ...this.#calls.update(update, subagent.callId)];
      }
      default:
        return [];
    }
  }

  #flushTexts() {
    return [...this.#subagents.flush(), ...this.#text.flush()];
  }

  #onMessageChunk({ content, messageId }) {
    const picture = content?.type === 'image' ? records.imageBlock(content) : null;
    if (picture) return this.#withPendingText([this.#message(records.image(picture))]);
    const text = blockText(content);
    const mode = this.#quirks.reportsModeAsText ? /^\[MODE_UPDATE\] (\S+)\s*$/.exec(text)?.[1] : undefined;
    if (mode !== undefined) return [{ type: 'mode', mode }];
    if (text.trim() !== '') this.#endsWithDenial = false;
    if (this.#endsWithError) {
      this.#endsWithError = false;
      return this.#withPendingText([this.#message(records.failure(text.trim()))]);
    }
    return this.#isRepeated(text, messageId) ? [] : this.#text.append('text', text, messageId ?? undefined);
  }

  /** Whether a whole message repeats the message before, as some outputs of slash commands do. Short texts may be said twice. */
  #isRepeated(text, messageId) {
    const isNext = messageId !== this.#lastMessage.id;
    const isRepeated = isNext && text.length >= MIN_REPEATED_CHARS && text.trim() === this.#lastMessage.text.trim();
    this.#lastMessage = { id: messageId, text: isNext ? text : this.#lastMessage.text + text };
    return isRepeated;
  }

  /** Returns a note of the agent's program. @returns {string | undefined} */
  #infoOf(update) {
    if (!this.#quirks.reportsInfoAsText || update?.sessionUpdate !== 'agent_message_chunk') return undefined;
    return /^Info: ([^]+)$/.exec(blockText(update.content))?.[1].trim();
  }

  /** Converts a note of the agent's program to an event, once in a turn. Leaves out a note that a call already shows. */
  #onInfo(info) {
    const isShown = info === 'Operation cancelled by user' || this.#calls.isPathOfCall(info);
    return isShown ? [] : this.#noticeOnce('info', info);
  }

  #onToolCall(update) {
    const isNew = this.#calls.isNew(update);
    if (isNew) this.#endsWithDenial = false;
    const isEnd = ['completed', 'failed'].includes(update.status);
    const texts = [...(isEnd ? this.#subagents.flush(update.toolCallId) : []), ...(isNew ? this.#text.flush() : [])];
    return [...texts, ...this.#withPendingText(this.#calls.update(update))];
  }

  #onPlan({ entries }) {
    const todos = asList(entries)
      .filter((entry) => isText(entry?.content))
      .slice(0, MAX_TODOS)
      .map(({ content, status, priority }) => limitSize({ content, status, priority }, MAX_TODO_BYTES));
    const changed = this.#recordIfChanged('plan', { todos });
    return changed.length > 0 ? this.#withPendingText([this.#message(records.plan(this.#flavor, changed[0].todos))]) : [];
  }

  #onTitle({ title }) {
    const text = titleToSummary(title);
    return text === null ? [] : this.#recordIfChanged('summary', { text });
  }

  /** Says once in a turn that the model refuses requests for a reason. The activity has the number of attempts. */
  #onRetry(update) {
    this.#retry = { ...update, attempt: update.attempt ?? (this.#retry?.attempt ?? 0) + 1 };
    return this.#noticeOnce('warning', update.text);
  }

  /** Returns an event, unless the same event was sent in this turn. */
  #noticeOnce(name, text) {
    if (this.#notices.has(text)) return [];
    this.#notices.add(text);
    return this.#event(name, text);
  }

  #forgetTurn() {
    this.#lastMessage = { text: '' };
    this.#retry = null;
    this.#endsWithError = false;
    this.#notices.clear();
  }

  /** @param {{used?: unknown, size?: unknown, cost?: object, _meta?: any}} usage */
  #onUsage({ used, size, cost, _meta }) {
    const limits = toPlanLimits(_meta?.['_claude/rateLimit']);
    const reported = limits.length > 0 ? this.#recordIfChanged('limits', { limits }) : [];
    if (typeof used !== 'number') return reported;
    return [...reported, ...this.#recordIfChanged('usage', { used, ...(typeof size === 'number' && { size }), ...(cost && { cost }) })];
  }

  #onCompaction({ sessionUpdate, compactionId, status, content, summary, error }) {
    const chunks = this.#summaryChunks.get(compactionId) ?? '';
    if (sessionUpdate === 'compaction_summary_chunk') {
      this.#summaryChunks.set(compactionId, chunks + blockText(content));
      return [];
    }
    const fullSummary = asList(summary).map(blockText).join('') || chunks;
    if (status !== 'in_progress') this.#summaryChunks.delete(compactionId);
    // Claude Code reports the end of a compaction twice, and the second time without the summary.
    if (status !== 'in_progress' && this.#recordIfChanged('compaction', { compactionId }).length === 0) return [];
    if (status === 'completed') return this.#event('summary', fullSummary || 'The conversation was compacted.');
    return status === 'failed' ? this.#event('compaction_failed', isText(error) ? error : 'No reason given.') : [];
  }

  /** Returns a record, unless the last record of the type was the same. */
  #recordIfChanged(type, fields) {
    const json = JSON.stringify(fields);
    if (this.#lastJson.get(type) === json) return [];
    this.#lastJson.set(type, json);
    return [{ type, ...fields }];
  }

  /** Whether a call belongs to a sub-agent that works on after the turn: it waits for an answer. */
  #isBackground(call) {
    return call.parentId !== undefined && this.#requests.hasRequestFor(call);
  }

  #describeCancel() {
    // Some agents report a denial as a canceled turn. The denied call already shows the denial.
    return this.#endsWithDenial ? null : 'Aborted.';
  }

  #event(name, value) {
    return isText(value) ? this.#withPendingText([this.#message(records.event(name, value))]) : [];
  }

  #message(content) {
    return records.message(this.#newId(), content);
  }

  /** Puts the agent's text that is not stored yet before the records. If there are no records, the text stays pending. */
  #withPendingText(newRecords) {
    return newRecords.length > 0 ? [...this.#text.flush(), ...newRecords] : [];
  }
}

const joinTexts = (...texts) => texts.filter(isText).join('\n');
