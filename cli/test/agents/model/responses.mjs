/** The dialect of OpenAI's responses, which Codex speaks. */

import { nextId, wordsOf } from './script.mjs';

const USAGE = {
  input_tokens: 1234,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 56,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 1290,
};

export const path = /\/responses$/;

export const read = ({ input = [], tools = [] }) => ({
  tools: tools
    .flatMap((tool) => (tool.type === 'namespace' ? (tool.tools ?? []) : [tool]))
    .map(({ name, type, parameters }) => ({ name: name ?? type, schema: parameters, isCustom: type === 'custom' })),
  history: input.flatMap(
    /** @returns {import('./script.mjs').History} */ ({ type = 'message', role, content }) => {
      if (role === 'user') return [{ role, text: content.map(({ text = '' }) => text).join('\n') }];
      if (/_call$/.test(type)) return [{ role: 'call' }];
      return /_output$/.test(type) ? [{ role: 'result' }] : [];
    },
  ),
  hasPicture: JSON.stringify(input).includes('"input_image"'),
});

export async function write({ texts, calls }, _body, { send }) {
  const id = nextId('resp');
  const event = (body) => send(body, body.type);
  const output = [];
  const finishItem = (item) => {
    event({ type: 'response.output_item.done', output_index: output.length, item });
    output.push(item);
  };
  event({ type: 'response.created', response: { id, object: 'response', status: 'in_progress', output: [] } });
  for (const text of texts) {
    const item = { id: nextId('item'), type: 'message', role: 'assistant' };
    event({ type: 'response.output_item.added', output_index: output.length, item: { ...item, content: [] } });
    let whole = '';
    for await (const delta of wordsOf(text)) {
      whole += delta;
      event({ type: 'response.output_text.delta', item_id: item.id, output_index: output.length, content_index: 0, delta });
    }
    finishItem({ ...item, content: [{ type: 'output_text', text: whole }] });
  }
  for (const { id: call_id, name, input, isCustom } of calls) {
    const item = isCustom
      ? { type: 'custom_tool_call', id: nextId('item'), call_id, name, input, status: 'completed' }
      : { type: 'function_call', id: nextId('item'), call_id, name, arguments: JSON.stringify(input) };
    event({ type: 'response.output_item.added', output_index: output.length, item });
    finishItem(item);
  }
  return event({ type: 'response.completed', response: { id, object: 'response', status: 'completed', output, usage: USAGE } });
}
