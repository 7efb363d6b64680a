/** Builds and parses the contents of messages. The hub reads only `TodoWrite` calls and `ready` events; other contents are opaque. */

import { randomUUID } from 'node:crypto';

const output = (data) => ({ role: 'agent', content: { type: 'output', data } });

/** A message of the agent with one block, such as a tool call or a picture (PROTOCOL.md "What agents write"). */
export const assistantMessage = (part) => output({ type: 'assistant', message: { role: 'assistant', content: [part] } });

/**
 * A text of the agent.
 * @param {string} value
 * @param {{localId: string, end?: string, start?: string}} [continuedBy] the message that continues the text
 */
export const text = (value, continuedBy) => assistantMessage({ type: 'text', text: value, ...(continuedBy && { continuedBy }) });

/** The reason why a turn failed. Clients show the message as an error. */
export const failure = (value) =>
  output({ type: 'assistant', isApiErrorMessage: true, message: { role: 'assistant', content: [{ type: 'text', text: value }] } });

/** A tool call. The hub stores the todos of a `TodoWrite` call with the session. */
export const toolUse = (id, name, input) => assistantMessage({ type: 'tool_use', id, name, input });

/** A piece of a tool's output. `isFinal`: the call has ended. */
export const toolResult = (id, content, isError = false, isFinal = false) =>
  output({
    type: 'user',
    message: {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content, ...(isError && { is_error: true }), ...(isFinal && { is_final: true }) }],
    },
  });

/**
 * Returns the local ids of a tool call's messages. The ids are derived from the call's id, so that the hub recognizes messages that are
 * sent again after a restart.
 * @param {string} id of the call
 */
export const localIds = (id) => ({ use: `${id}-use`, result: `${id}-result`, end: `${id}-end`, ready: `${id}-ready` });

/** The `ready` event: the agent waits for the next message. */
export const ready = () => ({ role: 'agent', content: { id: randomUUID(), type: 'event', data: { type: 'ready' } } });

/**
 * What happened to a queued message, which clients show at the message itself. `id`: of the message. `text`: the text that the agent
 * received, if a user has edited the message.
 * @typedef {{id: string, change: 'started' | 'canceled', text?: string}} QueueChange
 */

/**
 * A note of the CLI in the conversation.
 * @param {string} sentence
 * @param {QueueChange[]} [queued] the messages that the note is about
 */
export const note = (sentence, queued = []) => ({
  role: 'agent',
  content: { id: randomUUID(), type: 'event', data: { type: 'message', message: sentence, ...(queued.length > 0 && { queued }) } },
});

/** A record that a client without support for the queue does not show. @param {QueueChange[]} queued */
export const queueRecord = (queued) => output({ type: 'queue', isMeta: true, queued });

/** A command typed at the terminal. */
export const typedCommand = (command) => ({
  role: 'user',
  content: { type: 'text', text: command },
  meta: { sentFrom: 'cli' },
});

/**
 * Parses the content of a message from the hub.
 * @param {any} content
 * @returns {{text: string, attachments: {path: string, filename?: string}[]} | null} null if the message was not sent by a user from
 *   the web: it was typed at the terminal, or copied by a fork
 */
export function parseUserMessage(content) {
  if (content?.role !== 'user' || content.content?.type !== 'text' || ['cli', 'fork'].includes(content.meta?.sentFrom)) return null;
  const { text: command, attachments } = content.content;
  return {
    text: typeof command === 'string' ? command : '',
    attachments: Array.isArray(attachments) ? attachments.filter((file) => typeof file?.path === 'string') : [],
  };
}
