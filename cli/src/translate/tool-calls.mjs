/**
 * The tool calls of a session. Several updates and permission requests of the agent describe one call. The hub stores the call when
 * its input is known, then the output in pieces, then the end.
 */

import { isTodoCall, diffsOf, hasInput, toolInput, toolName } from './tool-input.mjs';
import { contentText, exitCode, ToolOutput } from './tool-output.mjs';
import { MAX_INPUT_BYTES, asList, asObject, hasFields, isObject, isText, limitSize } from './values.mjs';
import { message, toolResult, toolUse, withParent } from './records.mjs';

/** The shortest time between two stored pieces of a running call's output. */
const OUTPUT_INTERVAL_MS = 1000;
/** Limit on an id from the agent. The hub accepts ids of requests of up to 255 bytes. */
const MAX_ID_BYTES = 200;

const TODO_TOOL = 'TodoWrite';

/**
 * @typedef {object} Call
 * @property {string} id the id of the call at the hub
 * @property {string} toolCallId the agent's id of the call
 * @property {string} localIdPrefix of the call's messages
 * @property {string} [parentId] for a call of a sub-agent: the hub's id of the call that started the sub-agent
 * @property {string[]} reportedNames all tool names that the agent sent for the call; the last one applies
 * @property {string} [kind]
 * @property {string} [title]
 * @property {string} [firstTitle]
 * @property {string} status
 * @property {any} rawInput
 * @property {{path: string, oldText: string, newText: string}[]} diffs
 * @property {{path?: string}[]} locations
 * @property {string} description text that the agent sent before the call ran
 * @property {ToolOutput} output
 * @property {boolean} isStored whether the call was sent to the hub, with `name` and `input`
 * @property {boolean} isEnded
 * @property {boolean} [hasFailed] whether the end of the call was an error
 * @property {boolean} isOld whether the call had already ended when the last turn ended
 * @property {boolean} isFailedByBridge whether the bridge has ended the call. Later updates of the call are ignored
 * @property {string} [name]
 * @property {object} [input]
 * @property {number} resultCount the number of stored results
 * @property {number} lastResultAt when the last result was stored
 */

export class ToolCalls {
  /** @type {Map<string, Call>} the latest call of each of the agent's ids */
  #calls = new Map();
  #usedIds;

  /**
   * @param {{quirks: import('./agents.mjs').Quirks, newId: () => string, now: () => number, usedIds: Iterable<string>}} options
   */
  constructor({ quirks, newId, now, usedIds }) {
    this.quirks = quirks;
    this.newId = newId;
    this.now = now;
    this.#usedIds = new Set(usedIds);
  }

  /** The calls that are stored at the hub and have not ended. */
  get openCalls() {
    return [...this.#calls.values()].filter(({ isStored, isEnded }) => isStored && !isEnded);
  }

  /** @returns {Call | undefined} */
  find(toolCallId) {
    return this.#calls.get(toolCallId);
  }

  /** Whether an update begins a call. An agent may use an id again after the call has ended. */
  isNew({ sessionUpdate, toolCallId }) {
    const call = this.#calls.get(toolCallId);
    return !call || (call.isEnded && sessionUpdate === 'tool_call');
  }

  /**
   * Applies a `tool_call` or `tool_call_update`.
   * @param {any} received
   * @param {string} [parentId] see {@link Call}
   * @returns {import('./records.mjs').MessageRecord[]}
   */
  update(received, parentId) {
    if (!isText(received.toolCallId)) return [];
    // Qwen Code describes the steps of a sub-agent here. The steps themselves are below the call.
    const update = received._meta?.subagentProgress === true ? { ...received, content: undefined } : received;
    const call = this.isNew(update) ? this.#create(update.toolCallId, parentId) : this.#calls.get(update.toolCallId);
    if (call.isFailedByBridge) return [];
    const isOutput = isOutputUpdate(call, update, this.quirks);
    merge(call, update);
    if (call.isEnded) return this.#readLateOutput(call, update);
    if (isOutput) call.output.read(update, hasFinalStatus(call));
    else call.description = contentText(update.content) || call.description;
    if (hasFinalStatus(call)) return this.#end(call, call.status === 'failed' || (exitCode(update) ?? 0) !== 0);
    const records = !call.isStored && this.#isInputKnown(call) ? [this.#store(call)] : [];
    return [...records, ...this.#takeDueOutput(call)];
  }

  /**
   * Stores a call because the agent asks for its permission.
   * @param {object} toolCall the call in the request; the agent may not have sent any update of this call
   * @param {string} [parentId] see {@link Call}
   * @returns {{call: Call, records: import('./records.mjs').MessageRecord[]}}
   */
  storeForRequest(toolCall, parentId) {
    const id = isText(toolCall.toolCallId) ? toolCall.toolCallId : this.newId();
    const known = this.#calls.get(id);
    const call = known && !known.isEnded ? known : this.#create(id, parentId);
    merge(call, { ...toolCall, status: undefined });
    call.description = contentText(toolCall.content) || call.description;
    return { call, records: call.isStored ? [] : [this.#store(call)] };
  }

  /** Stores a call in which a sub-agent works, because clients show the sub-agent below the call. */
  ensureStored(toolCallId) {
    const call = this.#calls.get(toolCallId);
    return !call || call.isStored || call.isEnded ? [] : [this.#store(call)];
  }

  /** Must be called when the user has approved a call. */
  onApproved(call) {
    if (call.status === 'pending') call.status = 'in_progress';
  }

  /** Ends a call as failed, for a reason that the agent may not report. */
  fail(call, reason) {
    if (call.isEnded) return [];
    const unsentOutput = call.output.takeAllUnsent();
    call.isEnded = true;
    call.isFailedByBridge = true;
    const records = call.isStored ? [] : [this.#store(call)];
    if (typeof unsentOutput !== 'string' || unsentOutput.trim() !== '') records.push(this.#result(call, unsentOutput));
    return [...records, this.#result(call, call.resultCount > 0 ? `\n${reason}` : reason, { isError: true, isFinal: true })];
  }

  /** Ends all calls as failed, except calls whose input never arrived. */
  failAll(reason) {
    return this.#unendedCalls().flatMap((call) => this.fail(call, reason));
  }

  /**
   * Ends the calls at the regular end of a turn, because agents do not report the end of every call.
   * @param {(call: Call) => boolean} isBackground whether a call goes on after the turn
   */
  endAllWithTurn(isBackground) {
    return this.#unendedCalls()
      .filter((call) => !isBackground(call))
      .flatMap((call) => (call.status === 'pending' ? this.fail(call, 'The turn ended before this call ran.') : this.#end(call, false)));
  }

  /** Returns the unsent output of all calls whose last result was stored at least {@link OUTPUT_INTERVAL_MS} ago. */
  takeDueOutput() {
    return this.openCalls.flatMap((call) => this.#takeDueOutput(call));
  }

  /**
   * To be called at the end of a turn. Removes the calls that had already ended when the previous turn ended. Later calls are kept, because
   * the agent may still send updates of them.
   */
  forgetOld() {
    for (const [id, call] of this.#calls) {
      if (call.isOld) this.#calls.delete(id);
      else call.isOld = call.isEnded;
    }
  }

  /** Whether a text is the path of a file that a call names. */
  isPathOfCall(text) {
    return [...this.#calls.values()].some(({ locations }) => locations.some(({ path }) => path === text));
  }

  /** Returns the input of a call as far as the agent has sent it. The stored input may be older. */
  inputOf(call) {
    return call ? toolInput(call, this.quirks) : {};
  }

  /** Returns an unused id for a request of a call: the call's id, or the call's id with a number at its end. */
  newRequestId(id) {
    return this.#uniqueId(id, 'request ');
  }

  #unendedCalls() {
    return [...this.#calls.values()].filter((call) => !call.isEnded && (call.isStored || call.status !== 'pending' || hasInput(call)));
  }

  #create(toolCallId, parentId) {
    const isValid = Buffer.byteLength(toolCallId) <= MAX_ID_BYTES && toolCallId.isWellFormed();
    const id = this.#uniqueId(isValid ? toolCallId : this.newId(), 'call ');
    const state = { isStored: false, isEnded: false, isOld: false, isFailedByBridge: false, resultCount: 0, lastResultAt: 0 };
    const input = { rawInput: undefined, diffs: [], locations: [], description: '', output: new ToolOutput() };
    const call = { id, toolCallId, parentId, localIdPrefix: this.newId(), reportedNames: [], status: 'pending', ...input, ...state };
    this.#calls.set(toolCallId, call);
    return call;
  }

  #uniqueId(id, prefix) {
    let unique = id;
    for (let count = 2; this.#usedIds.has(prefix + unique); count += 1) unique = `${id}#${count}`;
    this.#usedIds.add(prefix + unique);
    return unique;
  }

  #isInputKnown(call) {
    // A call that replaces the todos is stored only when it succeeds: a failed call must not replace them.
    if (isTodoCall(call)) return false;
    if (call.status !== 'in_progress') return this.quirks.hasInputWhilePending === true && hasInput(call);
    if (hasInput(call)) return true;
    // The input may still be missing: agents send an empty input first.
    const isEmptyYet = isObject(call.rawInput) && !call.output.hasUnsent;
    return call.kind !== 'edit' && !isEmptyYet && (isText(call.title) || call.locations.length > 0);
  }

  #store(call) {
    call.isStored = true;
    call.name = toolName(call, this.quirks);
    call.input = limitSize(toolInput(call, this.quirks), MAX_INPUT_BYTES);
    return withParent(message(`${call.localIdPrefix}-use`, toolUse(call.id, call.name, call.input)), call.parentId);
  }

  #end(call, isError) {
    call.isEnded = true;
    call.hasFailed = isError;
    // The todos of a sub-agent must not replace the todos of the session.
    if (isTodoCall(call) && call.parentId !== undefined) return [];
    if (!call.isStored && !isError && isTodoCall(call)) {
      call.isStored = true;
      return [message(`${call.localIdPrefix}-use`, toolUse(call.id, TODO_TOOL, { todos: call.rawInput.todos }))];
    }
    return [...(call.isStored ? [] : [this.#store(call)]), this.#result(call, call.output.takeAllUnsent(), { isError, isFinal: true })];
  }

  /** Reads what Codex sends of a background command after the end of its call: the output, and an exit code that is an error. */
  #readLateOutput(call, update) {
    const hasOutput = isText(update._meta?.terminal_output_delta?.data);
    if (hasOutput) call.output.read(update, false);
    const records = hasOutput ? [this.#result(call, call.output.takeAllUnsent())] : [];
    const code = update._meta?.terminal_exit?.exit_code;
    if (typeof code !== 'number' || code === 0 || call.hasFailed) return records;
    call.hasFailed = true;
    return [...records, this.#result(call, `\nExit code ${code}`, { isError: true, isFinal: true })];
  }

  #takeDueOutput(call) {
    if (!call.isStored || !call.output.hasUnsent || this.now() - call.lastResultAt < OUTPUT_INTERVAL_MS) return [];
    return [this.#result(call, call.output.takeUnsentStart())];
  }

  #result(call, content, { isError = false, isFinal = false } = {}) {
    call.resultCount += 1;
    call.lastResultAt = this.now();
    const record = message(`${call.localIdPrefix}-result-${call.resultCount}`, toolResult(call.id, content, isError, isFinal));
    return withParent(record, call.parentId);
  }
}

const hasFinalStatus = ({ status }) => status === 'completed' || status === 'failed';

/**
 * Whether the content of an update is output. Before a call runs, the content describes the call.
 * @param {Call} call
 * @param {any} update
 * @param {import('./agents.mjs').Quirks} quirks
 */
function isOutputUpdate(call, { sessionUpdate, status, rawInput }, { describesRunningCalls }) {
  if (describesRunningCalls && sessionUpdate === 'tool_call' && status === 'in_progress') return false;
  if (status !== undefined && status !== null) return status !== 'pending';
  return call.status !== 'pending' || (call.isStored && !hasFields(rawInput));
}

function merge(call, update) {
  for (const name of [update._meta?.claudeCode?.toolName, update.name, update._meta?.toolName]) {
    if (isText(name) && !call.reportedNames.includes(name)) call.reportedNames.push(name);
  }
  if (isText(update.title)) {
    call.firstTitle ??= update.title;
    call.title = update.title;
  }
  if (isText(update.kind)) call.kind = update.kind;
  if (isText(update.status) && !call.isEnded) call.status = update.status;
  if (asList(update.locations).length > 0) call.locations = update.locations.filter(isObject);
  mergeInput(call, update.rawInput);
  const diffs = diffsOf(update.content);
  if (diffs.length > 0) call.diffs = diffs;
}

function mergeInput(call, rawInput) {
  if (isObject(rawInput)) call.rawInput = hasFields(rawInput) ? { ...asObject(call.rawInput), ...rawInput } : (call.rawInput ?? rawInput);
  else if (rawInput !== undefined && rawInput !== null && rawInput !== '' && !hasFields(call.rawInput)) call.rawInput = rawInput;
}
