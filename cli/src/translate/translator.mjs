/**
 * Translates the agent's messages of the Agent Client Protocol (version 1) into records for the hub. Pure: no I/O and no timers. Each
 * process of an agent has its own translator.
 *
 *     const translator = createTranslator({ agent: 'claude', flavor: 'alpha' });
 *
 *     onUpdate(update) -> Record[]               for each `session/update`: `params.update`
 *     onReplayedUpdate(update) -> Record[]       for updates that replay a loaded session: only records of the session's state
 *     onPermissionRequest(params) -> {records, request}    for `session/request_permission`
 *     onElicitation(params) -> {records, request}          for `elicitation/create`; throws unless the mode is `form`
 *     responseTo(id, decision) -> object         the JSON-RPC result for the request with this id at the hub
 *     onPermissionResolved(id, decision) -> Record[]       after `responseTo`, for requests of both kinds
 *     endTurn(stopReason) -> Record[]            after the reply of `session/prompt` and the late updates
 *     closeOpenCalls(reason) -> Record[]         when the agent crashed, or does not end its calls
 *     flush() -> Record[]                        ends the current message, for updates outside of a turn
 *     takeDueRecords() -> Record[]               text and output that are due; to be called about once a second
 *     takeDeltas() -> Delta[]                    live text since the last call
 *     openCalls -> {id, name, input}[]           calls that the next process must close if this process crashes
 *
 * - Record: see `records.mjs`. The caller sends the messages to the hub in order, each with its `localId`.
 * - Delta: `{id, kind: 'text' | 'thinking', text}`. `text` continues the message that follows as the record with `localId === id`.
 * - `request`: `{id, tool, arguments, createdAt}`. The fields without `id` are the value of `agentState.requests[id]`. The id is the id
 *   of the tool call, so that clients show the request with the call.
 * - `records` beside a request: the call of the request, if the call is not stored yet.
 * - decision: `{status: 'approved' | 'denied' | 'canceled', decision?, reason?, answers?}`.
 *
 * The caller may answer a request without asking the user, if a rule covers the request. Only the user may answer a request with
 * `arguments.questions`. After a turn, the caller sends the event `ready` if no prompt is queued.
 */

import { randomUUID } from 'node:crypto';
import { quirksOf } from './agents.mjs';
import { toCommands } from './commands.mjs';
import { approvedOption, offeredChoices, permissionResult } from './permissions.mjs';
import { answersByPosition, elicitationResult, questionsOfCall, toQuestions } from './questions.mjs';
import * as records from './records.mjs';
import { TextBuffer } from './text-buffer.mjs';
import { ToolCalls } from './tool-calls.mjs';
import { isKnownKind } from './tool-input.mjs';
import { blockText } from './tool-output.mjs';
import { MAX_INPUT_BYTES, asList, asObject, firstLine, isText, limitSize } from './values.mjs';

const MAX_SUMMARY_CHARS = 200;
const MAX_TODOS = 200;
/** Limit on the JSON of one todo, in bytes. The hub accepts lists of 250,000 bytes. */
const MAX_TODO_BYTES = 1200;

/** The tool name of a question that belongs to no tool call. */
const QUESTION_TOOL = 'AskUserQuestion';

/** Matches the title that an agent generates for a session without a title. */
const PLACEHOLDER_TITLE = /^New session - /;

/** Severities that become names of events. The hub's own events have other names. */
const SEVERITIES = ['info', 'warning', 'error'];

/** Updates of a session's state, as opposed to its conversation. */
const STATE_UPDATES = new Set([
  'available_commands_update',
  'config_option_update',
  'current_mode_update',
  'notice',
  'session_info_update',
  'usage_update',
]);

const STOP_REASONS = {
  max_tokens: 'The answer was cut off at the limit of output tokens.',
  max_turn_requests: 'The agent stopped at its limit of requests to the model in one turn.',
  refusal: 'The model refused to continue.',
};

/**
 * @typedef {{agent: string, flavor?: string, newId?: () => string, now?: () => number, usedIds?: Iterable<string>}} Options
 *   `agent`: the name of the agent, known or not; `flavor`: the session's agent kind at the hub; `usedIds`: the ids of the requests in
 *   the session's agent state, because agents with short ids would use the same ids again
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
  #now;
  #text;
  #calls;
  /** @type {Map<string, {params: object, call?: import('./tool-calls.mjs').Call, questions: object[], isForm: boolean,
   *   choices?: import('./permissions.mjs').Choice[]}>} */
  #requests = new Map();
  /** Whether the turn has neither text nor calls since a denial. */
  #endsWithDenial = false;
  #compactions = new Map();
  /** The JSON of the last record of each type, to drop repeated records. */
  #last = new Map();

  /** @param {Options} options */
  constructor({ agent, flavor = 'alpha', newId = randomUUID, now = Date.now, usedIds = [] }) {
    const quirks = quirksOf(agent);
    this.#quirks = quirks;
    this.#flavor = flavor;
    this.#newId = newId;
    this.#now = now;
    this.#text = new TextBuffer({ newId, now });
    this.#calls = new ToolCalls({ quirks, newId, now, usedIds: [...usedIds].flatMap((id) => [`call ${id}`, `request ${id}`]) });
  }

  get openCalls() {
    return this.#calls.openCalls.map(({ id, name, input }) => ({ id, name, input }));
  }

  onUpdate(update) {
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
        return this.#onChange('commands', { commands: toCommands(update.availableCommands) });
      case 'session_info_update':
        return this.#onTitle(update);
      case 'usage_update':
        return this.#onUsage(update);
      case 'current_mode_update':
        return isText(update.currentModeId) ? [{ type: 'mode', mode: update.currentModeId }] : [];
      case 'config_option_update':
        return [{ type: 'options', options: asList(update.configOptions) }];
      case 'notice':
        return this.#event(SEVERITIES.includes(update.severity) ? update.severity : 'notice', joinTexts(update.title, update.description));
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
    const { call, records: stored } = this.#calls.storeForRequest(toolCall);
    const added = this.#addRequest({ params, call, questions, isForm: false });
    return { records: this.#afterText(stored), ...added };
  }

  onElicitation(params) {
    if (params.mode !== undefined && params.mode !== 'form') throw new Error(`Questions of mode ${params.mode} are not supported.`);
    const call = this.#calls.find(params.toolCallId);
    const questions = toQuestions(params, call?.rawInput?.questions);
    const stored = call && !call.isStored && !call.isEnded ? this.#calls.storeForRequest({ toolCallId: params.toolCallId }).records : [];
    const added = this.#addRequest({ params, call, questions, isForm: true });
    return { records: this.#afterText(stored), ...added };
  }

  responseTo(id, decision) {
    const request = this.#requests.get(id);
    if (!request) throw new Error(`There is no open request ${id}.`);
    const { params, questions, isForm, choices } = request;
    if (isForm) return elicitationResult(params, decision);
    const result = permissionResult(params, decision, choices);
    const hasAnswers = questions.length > 0 && decision.status === 'approved';
    return hasAnswers ? { ...result, answers: answersByPosition(questions, decision.answers) } : result;
  }

  onPermissionResolved(id, decision) {
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    if (!request?.call) return [];
    const { call, params, isForm, choices } = request;
    if (decision.status === 'approved') {
      const isAllowed = isForm || approvedOption(params.options, decision, choices) !== undefined;
      if (!isAllowed) return this.#afterText(this.#calls.close(call, 'Not run: the agent offers no approval of a single call.'));
      this.#calls.onApproved(call);
      return [];
    }
    this.#endsWithDenial ||= decision.status === 'denied' && !call.isEnded;
    return this.#afterText(this.#calls.close(call, describeRefusal(decision)));
  }

  endTurn(stopReason) {
    const isCanceled = stopReason === 'cancelled';
    const ended = [...this.#text.flush(), ...(isCanceled ? this.#calls.closeAll('Aborted.') : this.#calls.endAll())];
    const sentence = isCanceled ? this.#describeCancel() : describeStop(stopReason);
    this.#endsWithDenial = false;
    this.#calls.forgetOld();
    return sentence ? [...ended, this.#message(records.text(sentence))] : ended;
  }

  closeOpenCalls(reason) {
    return [...this.#text.flush(), ...this.#calls.closeAll(reason)];
  }

  flush() {
    return this.#text.flush();
  }

  takeDueRecords() {
    return [...this.#text.flushIdle(), ...this.#calls.takeDueOutput()];
  }

  takeDeltas() {
    return this.#text.takeDeltas();
  }

  #onMessageChunk({ content, messageId, _meta }) {
    const usage = isText(content?.text) ? [] : this.#onUsage({ used: _meta?.usage?.totalTokens });
    const picture = content?.type === 'image' ? records.imageBlock(content) : null;
    if (picture) return this.#afterText([this.#message(records.image(picture))]);
    const value = blockText(content);
    const mode = this.#quirks.reportsModeAsText ? /^\[MODE_UPDATE\] (\S+)\s*$/.exec(value)?.[1] : undefined;
    if (mode !== undefined) return [{ type: 'mode', mode }];
    const info = this.#quirks.reportsInfoAsText ? /^Info: ([^]+)$/.exec(value)?.[1] : undefined;
    if (info !== undefined) return this.#onInfo(info.trim());
    if (value.trim() !== '') this.#endsWithDenial = false;
    return [...usage, ...this.#text.append('text', value, messageId ?? undefined)];
  }

  /** Converts a note to an event. Leaves out a note if a call shows the same. */
  #onInfo(info) {
    const isRepeated = info === 'Operation cancelled by user' || this.#calls.hasFile(info);
    return isRepeated ? [] : this.#event('info', info);
  }

  #onToolCall(update) {
    const isNew = this.#calls.isNew(update);
    if (isNew) this.#endsWithDenial = false;
    return [...(isNew ? this.#text.flush() : []), ...this.#afterText(this.#calls.update(update))];
  }

  #onPlan({ entries }) {
    const todos = asList(entries)
      .filter((entry) => isText(entry?.content))
      .slice(0, MAX_TODOS)
      .map(({ content, status, priority }) => limitSize({ content, status, priority }, MAX_TODO_BYTES));
    const changed = this.#onChange('plan', { todos });
    return changed.length > 0 ? this.#afterText([this.#message(records.plan(this.#flavor, changed[0].todos))]) : [];
  }

  #onTitle({ title }) {
    const text = titleToSummary(title);
    return text === null ? [] : this.#onChange('summary', { text });
  }

  /** @param {{used?: unknown, size?: unknown, cost?: object}} usage */
  #onUsage({ used, size, cost }) {
    if (typeof used !== 'number') return [];
    return this.#onChange('usage', { used, ...(typeof size === 'number' && { size }), ...(cost && { cost }) });
  }

  #onCompaction({ sessionUpdate, compactionId, status, content, summary, error }) {
    const previous = this.#compactions.get(compactionId) ?? '';
    if (sessionUpdate === 'compaction_summary_chunk') {
      this.#compactions.set(compactionId, previous + blockText(content));
      return [];
    }
    const whole = asList(summary).map(blockText).join('') || previous;
    if (status !== 'in_progress') this.#compactions.delete(compactionId);
    if (status === 'completed') return this.#event('summary', whole || 'The conversation was compacted.');
    return status === 'failed' ? this.#event('compaction_failed', isText(error) ? error : 'No reason given.') : [];
  }

  /** Returns a record, unless the last record of the type was the same. */
  #onChange(type, fields) {
    const json = JSON.stringify(fields);
    if (this.#last.get(type) === json) return [];
    this.#last.set(type, json);
    return [{ type, ...fields }];
  }

  /** Records a request. If its arguments are shortened, returns all arguments as `whole`, and their JSON as `content`. */
  #addRequest({ params, call, questions, isForm }) {
    const id = this.#calls.newRequestId(call?.id ?? this.#newId());
    const whole = this.#argumentsOf(params, call, questions, isForm);
    const args = limitSize(whole, MAX_INPUT_BYTES);
    const json = JSON.stringify(whole);
    const unshortened = JSON.stringify(args) === json ? {} : { whole, content: json };
    const kind = isKnownKind(call?.kind) ? { kind: call.kind } : {};
    const choices = isForm || questions.length > 0 ? {} : offeredChoices(params.options, isText(args.plan));
    this.#requests.set(id, { params, call, questions, isForm, choices: choices.choices });
    const request = { id, tool: call?.name ?? QUESTION_TOOL, arguments: args, createdAt: this.#now(), ...kind, ...choices };
    return { request, ...unshortened };
  }

  #argumentsOf({ message }, call, questions, isForm) {
    if (questions.length > 0) return { questions };
    return isForm ? { message } : this.#calls.inputOf(call);
  }

  #describeCancel() {
    // Agents also end the turn after a denial, which the denied call shows.
    return this.#endsWithDenial ? null : 'Aborted.';
  }

  #event(name, value) {
    return isText(value) ? this.#afterText([this.#message(records.event(name, value))]) : [];
  }

  #message(content) {
    return records.message(this.#newId(), content);
  }

  /** Returns the agent's text that is not stored yet, followed by the records. */
  #afterText(added) {
    return added.length > 0 ? [...this.#text.flush(), ...added] : [];
  }
}

const joinTexts = (...texts) => texts.filter(isText).join('\n');

function describeStop(stopReason) {
  if (stopReason === 'end_turn' || !isText(stopReason)) return null;
  return Object.hasOwn(STOP_REASONS, stopReason) ? STOP_REASONS[stopReason] : `The turn ended: ${stopReason}.`;
}

function describeRefusal({ status, decision, reason }) {
  const refusal = status === 'canceled' ? 'Canceled.' : decision === 'abort' ? 'Denied and aborted.' : 'Denied.';
  return reason ? `${refusal}\nReason: ${reason}` : refusal;
}
