/** The shapes of the messages that this agent sends. To the hub they are opaque, but for todos and `ready`. */

import { randomUUID } from 'node:crypto';

const output = (data) => ({ role: 'agent', content: { type: 'output', data } });
const said = (part) => output({ type: 'assistant', message: { role: 'assistant', content: [part] } });

/** Something the agent says. */
export const text = (words) => said({ type: 'text', text: words });

/** A tool is about to run. A `TodoWrite` is also how the hub learns of todos. */
export const toolUse = (id, name, input) => said({ type: 'tool_use', id, name, input });

/** A piece of a tool's output; a tool may have many. */
export const toolResult = (id, content, isError = false) =>
  output({
    type: 'user',
    message: {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content, ...(isError ? { is_error: true } : {}) }],
    },
  });

/**
 * Local ids of what is said of a call of a tool. Who says it again after a restart says the same messages: the hub stores
 * none of them twice.
 * @param {string} id the call's
 */
export const localIds = (id) => ({ use: `${id}-use`, result: `${id}-result`, end: `${id}-end`, ready: `${id}-ready` });

/** The agent waits for the next message. */
export const ready = () => ({ role: 'agent', content: { id: randomUUID(), type: 'event', data: { type: 'ready' } } });

/** A command typed at the terminal, for the history. */
export const typed = (words) => ({
  role: 'user',
  content: { type: 'text', text: words },
  meta: { sentFrom: 'cli' },
});

/**
 * Reads a user's message.
 * @param {any} content a message's content, from the hub
 * @returns {{text: string, attachments: {path: string, filename?: string}[]} | null} null for everything that is not a
 *   message of a user on the web
 */
export function userMessage(content) {
  if (content?.role !== 'user' || content.content?.type !== 'text' || content.meta?.sentFrom === 'cli') return null;
  const { text: words, attachments } = content.content;
  return {
    text: typeof words === 'string' ? words : '',
    attachments: Array.isArray(attachments) ? attachments.filter((one) => typeof one?.path === 'string') : [],
  };
}
