/** The dialect of Anthropic's messages, which Claude Code speaks. */

import { nextId, wordsOf } from './script.mjs';

const USAGE = { input_tokens: 1234, output_tokens: 56, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };

export const path = /\/messages$/;

export const read = ({ messages = [], tools = [] }) => ({
  tools: tools.map(({ name, input_schema: schema }) => ({ name, schema })),
  history: messages.flatMap(({ role, content }) => {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    const has = (type) => blocks.some((block) => block.type === type);
    if (role === 'assistant') return has('tool_use') ? [{ role: 'call' }] : [];
    const text = blocks.map((block) => block.text ?? '').join('\n');
    return [...(has('tool_result') ? [{ role: 'result' }] : []), ...(text.trim() === '' ? [] : [{ role: 'user', text }])];
  }),
  hasPicture: JSON.stringify(messages).includes('"type":"image"'),
});

export async function write({ texts, calls }, { model, stream }, { answer, send }) {
  const message = { id: nextId('msg'), type: 'message', role: 'assistant', model, stop_sequence: null, usage: USAGE };
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  const toolUses = calls.map(({ id, name, input }) => ({ type: 'tool_use', id: id.replace('call', 'toolu'), name, input }));
  if (!stream) {
    return answer({ ...message, stop_reason, content: [...texts.map(({ say }) => ({ type: 'text', text: say })), ...toolUses] });
  }
  const event = (body) => send(body, body.type);
  let index = 0;
  const block = async (content_block, deltas) => {
    event({ type: 'content_block_start', index, content_block });
    for await (const delta of deltas) event({ type: 'content_block_delta', index, delta });
    event({ type: 'content_block_stop', index });
    index += 1;
  };
  event({ type: 'message_start', message: { ...message, content: [], stop_reason: null } });
  for (const text of texts) {
    if (text.think === undefined) await block({ type: 'text', text: '' }, textDeltas(text));
    else await block({ type: 'thinking', thinking: '', signature: '' }, thoughtDeltas(text));
  }
  for (const use of toolUses) {
    await block({ ...use, input: {} }, [{ type: 'input_json_delta', partial_json: JSON.stringify(use.input) }]);
  }
  event({ type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 56 } });
  return event({ type: 'message_stop' });
}

async function* textDeltas(step) {
  for await (const text of wordsOf(step)) yield { type: 'text_delta', text };
}

async function* thoughtDeltas(step) {
  for await (const thinking of wordsOf(step)) yield { type: 'thinking_delta', thinking };
  yield { type: 'signature_delta', signature: 'signed' };
}
