/**
 * The sub-agents of opencode. opencode sends neither their steps nor their permission requests by the Agent Client Protocol, but as events
 * of its own server. This module rewrites these events to the updates and requests that other agents send. Pure: no I/O and no timers.
 */

import { asObject, isObject, isText } from './values.mjs';

const KINDS = {
  bash: 'execute',
  edit: 'edit',
  write: 'edit',
  patch: 'edit',
  apply_patch: 'edit',
  read: 'read',
  grep: 'search',
  glob: 'search',
  list: 'search',
  webfetch: 'fetch',
  websearch: 'fetch',
  task: 'think',
};

const STATUSES = { pending: 'pending', running: 'in_progress', completed: 'completed', error: 'failed' };

/** opencode's "always" is not offered: the bridge has approvals for the session of its own. */
const OPTIONS = [
  { optionId: 'once', kind: 'allow_once', name: 'Allow once' },
  { optionId: 'reject', kind: 'reject_once', name: 'Reject' },
];

const TEXT_UPDATES = { text: 'agent_message_chunk', reasoning: 'agent_thought_chunk' };

const withParent = (update, parentToolCallId) => ({ ...update, _meta: { parentToolCallId } });
const kindOf = (name) => (Object.hasOwn(KINDS, name) ? KINDS[name] : 'other');
const textContent = (text) => (isText(text) ? { content: [{ type: 'content', content: { type: 'text', text } }] } : {});

/**
 * What an event reports: `updates` and `params` as in `session/update` and `session/request_permission`; `requestId`: opencode's id of a new
 * request; `settled`: the ids of requests that no longer wait.
 * @typedef {{updates?: object[], request?: {requestId: string, params: any}, settled?: string[]}} EventReport
 */

export class OpencodeEvents {
  /** The agent's id of the call in which each sub-agent works, by the id of the sub-agent's session. @type {Map<string, string>} */
  #parentCalls = new Map();
  /** The session of each open request of a sub-agent. @type {Map<string, string>} */
  #requests = new Map();
  /** The kind of update of each part that the model is writing. @type {Map<string, string>} */
  #unfinishedTexts = new Map();

  /** @param {string} sessionId the agent's own session, whose updates and requests arrive by the protocol */
  constructor(sessionId) {
    this.sessionId = sessionId;
  }

  /** @param {any} event of `GET /event` @returns {EventReport} */
  read(event) {
    const { type, properties } = asObject(event);
    if (!isObject(properties)) return {};
    const { sessionID } = properties;
    switch (type) {
      case 'message.part.updated':
        return { updates: this.#onPart(asObject(properties.part)) };
      case 'message.part.delta':
        return { updates: this.#onDelta(properties) };
      case 'permission.asked':
        return sessionID === this.sessionId || !isText(properties.id) ? {} : { request: this.#onRequest(properties) };
      case 'permission.replied':
        return { settled: this.#settle((id) => id === properties.requestID) };
      // A canceled sub-agent does not answer its requests.
      case 'session.idle':
      case 'session.error':
        return { settled: this.#settle((_id, ofSession) => ofSession === sessionID) };
      case 'session.status':
        return { updates: this.#onStatus(asObject(properties.status)) };
      default:
        return {};
    }
  }

  /** opencode repeats a request until it is stopped, such as after a limit of the provider. */
  #onStatus(/** @type {any} */ { type, attempt, message }) {
    return type === 'retry' && isText(message) ? [{ sessionUpdate: 'model_retry', attempt, reason: message }] : [];
  }

  /** @param {any} properties */
  #onPart({ type, sessionID, tool, callID, state, time, id }) {
    const parentCall = this.#parentCalls.get(sessionID);
    if (Object.hasOwn(TEXT_UPDATES, type) && parentCall) {
      if (time?.end === undefined) this.#unfinishedTexts.set(id, TEXT_UPDATES[type]);
      else this.#unfinishedTexts.delete(id);
    }
    if (type !== 'tool' || !isObject(state)) return [];
    const subagentId = state.metadata?.sessionId;
    const startsSubagent = tool === 'task' && isText(subagentId) && !this.#parentCalls.has(subagentId);
    if (startsSubagent) this.#parentCalls.set(subagentId, callID);
    if (parentCall) return [withParent(toUpdate({ tool, callID, state }), parentCall)];
    // The agent's own call also arrives by the protocol, maybe after the first step of its sub-agent.
    return startsSubagent && sessionID === this.sessionId ? [toUpdate({ tool, callID, state })] : [];
  }

  /** @param {any} properties */
  #onDelta({ sessionID, partID, field, delta }) {
    const sessionUpdate = this.#unfinishedTexts.get(partID);
    if (sessionUpdate === undefined || field !== 'text') return [];
    const content = { type: 'text', text: delta };
    return [withParent({ sessionUpdate, messageId: partID, content }, this.#parentCalls.get(sessionID))];
  }

  /** @param {any} properties */
  #onRequest({ id, sessionID, permission, patterns, metadata, tool }) {
    this.#requests.set(id, sessionID);
    const shown = Object.keys(asObject(metadata)).length > 0 ? metadata : { patterns };
    const parentCall = this.#parentCalls.get(sessionID);
    const shownCall = {
      toolCallId: tool?.callID ?? id,
      title: shown.command ?? shown.filepath ?? permission,
      kind: kindOf(permission),
      status: 'pending',
      rawInput: shown,
    };
    const toolCall = parentCall ? withParent(shownCall, parentCall) : shownCall;
    return { requestId: id, params: { sessionId: sessionID, toolCall, options: OPTIONS } };
  }

  #settle(matches) {
    const settled = [...this.#requests].filter(([id, ofSession]) => matches(id, ofSession)).map(([id]) => id);
    for (const id of settled) this.#requests.delete(id);
    return settled;
  }
}

function toUpdate({ tool, callID, state }) {
  const { status, input, title, output, error, metadata } = state;
  return {
    sessionUpdate: 'tool_call_update',
    toolCallId: callID,
    title: isText(title) ? title : tool,
    kind: kindOf(tool),
    status: STATUSES[status] ?? 'in_progress',
    rawInput: input,
    ...textContent(error ?? output ?? metadata?.output),
  };
}
