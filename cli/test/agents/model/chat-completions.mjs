/** The dialect of OpenAI's chat completions, which opencode, Qwen Code and Copilot CLI speak. */

import { nextId, wordsOf } from './script.mjs';

const USAGE = { prompt_tokens: 1234, completion_tokens: 56, total_tokens: 1290 };

export const path = /\/chat\/completions$/;

export const read = ({ messages = [], tools = [] }) => ({
  tools: tools.map((tool) => ({ name: tool.function?.name, schema: tool.function?.parameters })),
  history: messages.flatMap(
    /** @returns {import('./script.mjs').History} */ ({ role, content, tool_calls: calls }) => {
      if (role === 'user') return [{ role, text: textOf(content) }];
      if (role === 'tool') return [{ role: 'result' }];
      return role === 'assistant' && calls?.length > 0 ? [{ role: 'call' }] : [];
    },
  ),
  hasPicture: JSON.stringify(messages).includes('"image_url"'),
});

export async function write({ texts, calls }, { model, stream }, { answer, send }) {
  const id = nextId('chat');
  const toolCalls = calls.map(({ id: callId, name, input }, index) => ({
    index,
    id: callId,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }));
  const finish = calls.length > 0 ? 'tool_calls' : 'stop';
  if (!stream) {
    const content = texts.map(({ say }) => say).join(' ');
    const message = { role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: toolCalls } : {}) };
    return answer({ id, object: 'chat.completion', model, choices: [{ index: 0, finish_reason: finish, message }], usage: USAGE });
  }
  const chunk = (delta, finish_reason = null) =>
    send({ id, object: 'chat.completion.chunk', created: 1, model, choices: [{ index: 0, delta, finish_reason }] });
  chunk({ role: 'assistant', content: '' });
  for (const text of texts) {
    for await (const content of wordsOf(text)) chunk(text.think === undefined ? { content } : { reasoning_content: content });
  }
  if (calls.length > 0) chunk({ tool_calls: toolCalls });
  chunk({}, finish);
  send({ id, object: 'chat.completion.chunk', created: 1, model, choices: [], usage: USAGE });
  return send('[DONE]');
}

const textOf = (content) => (typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('\n'));
