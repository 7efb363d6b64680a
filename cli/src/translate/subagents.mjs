/**
 * The sub-agents of a session. A sub-agent works in a call of the agent. Its updates name this call, and its messages become messages
 * with `parent_tool_use_id`, so that clients show them below the call.
 */

import { withParent } from './records.mjs';
import { TextBuffer } from './text-buffer.mjs';
import { isText } from './values.mjs';

/** Limit on the sub-agents that are remembered. A forgotten sub-agent's messages become messages of the agent itself. */
const MAX_SUBAGENTS = 500;

/** Returns the agent's id of the call in which a sub-agent made an update or a call; undefined for the agent itself. */
export const parentCallIdOf = (/** @type {any} */ update) => {
  // The first field is of Claude Code, the second of Qwen Code.
  const id = update?._meta?.claudeCode?.parentToolUseId ?? update?._meta?.parentToolCallId;
  return isText(id) ? id : undefined;
};

export class Subagents {
  /** By the agent's id of the call. @type {Map<string, {callId: string, text: TextBuffer}>} */
  #byCall = new Map();

  /** @param {{newId: () => string, now: () => number}} options */
  constructor(options) {
    this.options = options;
  }

  /**
   * Returns the sub-agent in a call.
   * @param {string | undefined} toolCallId the agent's id of the call
   * @param {(toolCallId: string) => {id: string} | undefined} findCall
   * @returns {{callId: string, text: TextBuffer} | undefined} undefined if the call is not known
   */
  find(toolCallId, findCall) {
    if (toolCallId === undefined) return undefined;
    const known = this.#byCall.get(toolCallId);
    const call = known ? undefined : findCall(toolCallId);
    if (!call) return known;
    const subagent = { callId: call.id, text: new TextBuffer(this.options) };
    this.#byCall.set(toolCallId, subagent);
    const [oldest] = this.#byCall.keys();
    if (this.#byCall.size > MAX_SUBAGENTS) this.#byCall.delete(oldest);
    return subagent;
  }

  get isPending() {
    return [...this.#byCall.values()].some(({ text }) => text.isPending);
  }

  /**
   * Appends a chunk to the text of a sub-agent.
   * @param {{callId: string, text: TextBuffer}} subagent
   * @param {'text' | 'thinking'} kind
   */
  append({ callId, text }, kind, chunk, messageId) {
    return text.append(kind, chunk, messageId).map((record) => withParent(record, callId));
  }

  /** Ends the current messages of one sub-agent, or of all. @param {string} [toolCallId] the agent's id of the call */
  flush(toolCallId) {
    return this.#each(toolCallId, (text) => text.flush());
  }

  flushIdle() {
    return this.#each(undefined, (text) => text.flushIdle());
  }

  #each(toolCallId, takeRecords) {
    const chosen = toolCallId === undefined ? [...this.#byCall.values()] : [this.#byCall.get(toolCallId) ?? []].flat();
    return chosen.flatMap(({ callId, text }) => takeRecords(text).map((record) => withParent(record, callId)));
  }
}
