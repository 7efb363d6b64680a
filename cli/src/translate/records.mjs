/**
 * The records that a translation produces, and the contents of messages.
 *
 * @typedef {{type: 'message', localId: string, content: object}} MessageRecord a message for the hub
 * @typedef {{name: string, description: string}} Command
 * @typedef {MessageRecord
 *   | {type: 'summary', text: string}
 *   | {type: 'commands', commands: Command[]}
 *   | {type: 'mode', mode: string}
 *   | {type: 'options', options: object[]}
 *   | {type: 'usage', used: number, size?: number, cost?: object}} Record
 *   `summary`: the session's title; `mode`: the agent's id of its new mode; `options`: the agent's new config options;
 *   `usage`: tokens in the agent's context, its size in tokens, and the cost so far
 */

const output = (data) => ({ role: 'agent', content: { type: 'output', data } });
const assistantMessage = (block) => output({ type: 'assistant', message: { role: 'assistant', content: [block] } });

/** @returns {MessageRecord} */
export const message = (localId, content) => ({ type: 'message', localId, content });

// The hub refuses half of a surrogate pair, which agents send where they split a text.
export const text = (value) => assistantMessage({ type: 'text', text: value.toWellFormed() });

export const thinking = (value) => assistantMessage({ type: 'thinking', thinking: value.toWellFormed() });

export const toolUse = (id, name, input) => assistantMessage({ type: 'tool_use', id, name, input });

/**
 * A piece of a tool's output.
 * @param {string} id
 * @param {string | object[]} content text, or blocks
 */
export const toolResult = (id, content, isError = false) =>
  output({
    type: 'user',
    message: {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content: toWellFormed(content), ...(isError ? { is_error: true } : {}) }],
    },
  });

const toWellFormed = (content) => (typeof content === 'string' ? content.toWellFormed() : content);

/** The agent's plan, which the hub stores as todos. `flavor` is the agent kind of the session. */
export const plan = (flavor, entries) => ({ role: 'agent', content: { type: flavor, data: { type: 'plan', entries } } });

/** A note about the session, such as a warning. `name` is one word. */
export const event = (name, value) => ({ role: 'agent', content: { type: 'event', data: { type: name, message: value.toWellFormed() } } });

/** The event that the agent waits for the next message. */
export const ready = () => ({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } });

/**
 * An image block of a message.
 * @param {{data?: unknown, mimeType?: unknown}} block of the protocol
 * @returns {object | null} null without data
 */
export const imageBlock = ({ data, mimeType }) =>
  typeof data === 'string' && typeof mimeType === 'string'
    ? { type: 'image', source: { type: 'base64', media_type: mimeType, data } }
    : null;

export const image = assistantMessage;
