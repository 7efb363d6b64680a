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
    .flatMap((tool) => (tool.type === 'namespace' ? (tool.tools ?? []).map((inner) => ({ ...inner, namespace: tool.name })) : [tool]))
    .map(({ name, type, parameters, namespace }) => ({
      name: name ?? type,
      schema: parameters,
      isCustom: type === 'custom',
      ...(namespace ? { namespace } : {}),
    })),
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
    if (text.think !== undefined) {
      const thought = { type: 'reasoning', id: nextId('item'), summary: [] };
      const at = { item_id: thought.id, output_index: output.length, summary_index: 0 };
      event({ type: 'response.output_item.added', output_index: output.length, item: thought });
      event({ type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } });
      for await (const delta of wordsOf(text)) event({ type: 'response.reasoning_summary_text.delta', ...at, delta });
      finishItem({ ...thought, summary: [{ type: 'summary_text', text: text.think }] });
      continue;
    }
    const item = { id: nextId('item'), type: 'message', role: 'assistant' };
    event({ type: 'response.output_item.added', output_index: output.length, item: { ...item, content: [] } });
    let fullText = '';
    for await (const delta of wordsOf(text)) {
      fullText += delta;
      event({ type: 'response.output_text.delta', item_id: item.id, output_index: output.length, content_index: 0, delta });
    }
    finishItem({ ...item, content: [{ type: 'output_text', text: fullText }] });
  }
  for (const { id: call_id, name, namespace, input, isCustom } of calls) {
    const item = isCustom
      ? { type: 'custom_tool_call', id: nextId('item'), call_id, name, input, status: 'completed' }
      : { type: 'function_call', id: nextId('item'), call_id, name, ...(namespace ? { namespace } : {}), arguments: JSON.stringify(input) };
    event({ type: 'response.output_item.added', output_index: output.length, item });
    finishItem(item);
  }
  return event({ type: 'response.completed', response: { id, object: 'response', status: 'completed', output, usage: USAGE } });
}
