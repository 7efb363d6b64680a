/**
 * Sub-agents that are sessions of their own, as Codex sends them. The agent announces such a session with `subagent_update`, and then sends
 * the updates and requests of the sub-agent with the id of this session. This module rewrites them to the form that other agents use: the
 * session that started the sub-agent gets a call, and the updates of the sub-agent name this call.
 */

import { asObject, isText } from './values.mjs';

/** Limit on the sub-agents that are remembered. The updates of a forgotten sub-agent become updates of the agent itself. */
const MAX_SESSIONS = 500;

/** The updates of a sub-agent that are part of the conversation. Its other updates, such as its model, do not concern the session. */
const CONVERSATION_UPDATES = new Set(['agent_message_chunk', 'agent_thought_chunk', 'tool_call', 'tool_call_update']);

const withParentCall = (value, parentToolCallId) => ({ ...value, _meta: { ...asObject(value._meta), parentToolCallId } });

export class SubagentSessions {
  /** Whether each sub-agent accepts `session/cancel`, by the id of its session. @type {Map<string, boolean>} */
  #sessions = new Map();

  /** The ids of the sessions that accept `session/cancel`. */
  get cancelable() {
    return [...this.#sessions].flatMap(([id, isCancelable]) => (isCancelable ? [id] : []));
  }

  /**
   * Rewrites a message of the agent.
   * @param {any} message of JSON-RPC
   * @returns {any} the message; null if it does not concern the session
   */
  rewrite(message) {
    const { sessionId, update, toolCall } = asObject(message?.params);
    const isOfSubagent = this.#sessions.has(sessionId);
    const withFields = (fields) => ({ ...message, params: { ...message.params, ...fields } });
    if (message?.method === 'session/update') {
      const isAnnouncement = update?.sessionUpdate === 'subagent_update';
      if (!isAnnouncement && !isOfSubagent) return message;
      const rewritten = isAnnouncement ? this.#onAnnouncement(update) : update;
      if (rewritten === null || (isOfSubagent && !CONVERSATION_UPDATES.has(rewritten?.sessionUpdate))) return null;
      return isOfSubagent ? withFields({ update: withParentCall(rewritten, sessionId) }) : withFields({ update: rewritten });
    }
    const isRequest = message?.method === 'session/request_permission' && isOfSubagent;
    return isRequest ? withFields({ toolCall: withParentCall(asObject(toolCall), sessionId) }) : message;
  }

  /** Returns the update of the call that represents a sub-agent; null if the call does not change. */
  #onAnnouncement({ sessionId, title, description, capabilities, state }) {
    if (!isText(sessionId)) return null;
    const isNew = !this.#sessions.has(sessionId);
    const isCancelable = capabilities === undefined ? this.#sessions.get(sessionId) === true : Boolean(capabilities?.cancel);
    this.#sessions.set(sessionId, isCancelable);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS) this.#sessions.delete(oldest);
    const status = toStatus(state);
    const call = { toolCallId: sessionId, ...status };
    if (!isNew) return status ? { sessionUpdate: 'tool_call_update', ...call } : null;
    const rawInput = { ...(isText(title) && { description: title }), ...(isText(description) && { prompt: description }) };
    return { sessionUpdate: 'tool_call', name: 'Agent', kind: 'think', title: 'Sub-agent', status: 'in_progress', rawInput, ...call };
  }
}

/** The status of the call for the state of its sub-agent; undefined while the sub-agent works. */
function toStatus(state) {
  if (!['idle', 'unknown'].includes(state?.state)) return undefined;
  const { stopReason = 'end_turn', error } = state;
  const content = isText(error?.message) ? { content: [{ type: 'content', content: { type: 'text', text: error.message } }] } : {};
  return { status: ['cancelled', 'error', 'refusal'].includes(stopReason) ? 'failed' : 'completed', ...content };
}
