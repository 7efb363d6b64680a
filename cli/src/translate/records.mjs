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
 *   | {type: 'usage', used: number, size?: number, cost?: object}
 *   | {type: 'limits', limits: Limit[]}} Record
 * @typedef {{id: string, used: number, resetsAt?: number}} Limit
 *   `summary`: the session's title; `mode`: the agent's id of its new mode; `options`: the agent's new config options;
 *   `usage`: tokens in the agent's context, its size in tokens, and the cost so far; `limits`: for each limit of the user's plan, the used
 *   fraction, and when the limit is reset, in Unix milliseconds
 */

import * as messages from 'session-gateway-cli-kit/messages';

/** @returns {MessageRecord} */
export const message = (localId, content) => ({ type: 'message', localId, content });

/**
 * Marks a message as a message of a sub-agent.
 * @param {MessageRecord} record
 * @param {string | undefined} parentId the id of the call that started the sub-agent; undefined for a message of the agent itself
 * @returns {MessageRecord}
 */
export function withParent(record, parentId) {
  if (parentId === undefined) return record;
  const { role, content } = /** @type {any} */ (record.content);
  return { ...record, content: { role, content: { ...content, data: { ...content.data, parent_tool_use_id: parentId } } } };
}

// Agents may split a text within a surrogate pair. The hub refuses half of a surrogate pair.
export const text = (value, continuedBy) => messages.text(value.toWellFormed(), continuedBy);

export const thinking = (value, continuedBy) =>
  messages.assistantMessage({ type: 'thinking', thinking: value.toWellFormed(), ...(continuedBy && { continuedBy }) });

/** Whether a record is a piece of a text that a later message continues. */
export const isContinued = ({ content }) => content?.content?.data?.message?.content?.[0]?.continuedBy !== undefined;

/** A message of the user that an agent replays. The agent already has this message, so no CLI sends the message to the agent. */
export const userMessage = (localId, value) => message(localId, messages.typedCommand(value));

/** Returns the text of a message from `userMessage`; undefined for other messages. @returns {string | undefined} */
export const parseUserMessageOfReplay = ({ role, content }) => (role === 'user' ? content.text : undefined);

export const image = messages.assistantMessage;

/** An error of the agent that ends the turn. */
export const failure = (value) => messages.failure(value.toWellFormed());

export { toolResult, toolUse } from 'session-gateway-cli-kit/messages';

/** The agent's plan, which the hub stores as todos. */
export const plan = (flavor, entries) => ({ role: 'agent', content: { type: flavor, data: { type: 'plan', entries } } });

/** A note about the session, such as a warning. `name` is one word. */
export const event = (name, value) => ({ role: 'agent', content: { type: 'event', data: { type: name, message: value.toWellFormed() } } });

/** Limit on a picture, in characters of base64. The hub accepts messages of 30 MiB. */
const MAX_IMAGE_CHARS = 25_000_000;

/**
 * An image block of a message.
 * @param {{data?: unknown, mimeType?: unknown}} block of the protocol
 * @returns {object | null} null if the image cannot be shown
 */
export const imageBlock = ({ data, mimeType }) =>
  typeof data === 'string' && typeof mimeType === 'string' && data.length <= MAX_IMAGE_CHARS
    ? { type: 'image', source: { type: 'base64', media_type: mimeType, data } }
    : null;
